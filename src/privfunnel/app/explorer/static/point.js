// Steps 4 to 6: choose a point, see what it means, download it.
import { $, amount, api, bar, complain, el, head, keepingFocus, latest, leaked, leakageUnit, number, percent, perLeakage, say, setInformation, unitName, unlock } from "./dom.js";
import * as beside from "./beside.js";
import * as curve from "./curve.js";
import * as release from "./release.js";
import * as search from "./search.js";
import * as work from "./work.js";

const { working } = work;

let ceiling = { disclosure: 1, leakage: 1, free: null };
let chosen = null;
const STEPS = 1000;

export function setUp() {
  $("slider").addEventListener("input", () => choose((ceiling.disclosure * Number($("slider").value)) / STEPS));
  $("keep").addEventListener("change", () => {
    const share = Number($("keep").value) / 100;
    const fits = $("keep").value !== "" && share >= 0 && share <= 1;
    if (!refuse("keep", fits, `${$("keep").value || "That"} is not a share: keep from 0 to 100 %`)) choose(share * ceiling.disclosure);
  });
  $("budget").addEventListener("change", () => {
    const leakage = Number($("budget").value) * perLeakage();
    const fits = $("budget").value !== "" && leakage >= 0;
    if (!refuse("budget", fits, `${$("budget").value || "That"} is not a leakage: allow ${`0 ${leakageUnit()}`.trim()} or more`)) ask({ leakage: String(leakage) });
  });
  $("sharpen").addEventListener("click", () => curve.start("refine", { at: chosen }));
  for (const id of ["keep", "budget"]) {
    // What is being typed is left alone until it is finished.
    $(id).addEventListener("input", () => { $(id).dataset.typing = ""; });
    for (const end of ["change", "blur"]) $(id).addEventListener(end, () => { delete $(id).dataset.typing; });
  }
  search.setUp(() => chosen);
  work.setUp();
  $("go-free").addEventListener("click", () => choose(ceiling.free));
  $("group").addEventListener("change", () => { if (chosen !== null) ask({ disclosure: String(chosen) }); });
  release.setUp(() => { if (chosen !== null) ask({ disclosure: String(chosen) }); }, () => chosen);
  document.querySelectorAll(".copy").forEach((button) => button.addEventListener("click", async () => {
    await navigator.clipboard.writeText($(button.dataset.copy).textContent);
    say("Copied.");
  }));
}

// Say why what was typed is not used, beside it; return whether that is so.
function refuse(id, fits, why = "") {
  $(id).setAttribute("aria-invalid", String(!fits));
  $("refused").textContent = why;
  $("refused").hidden = fits;
  return !fits;
}

export function begin(summary) {
  ceiling = { disclosure: summary.disclosure_ceiling, leakage: summary.leakage_ceiling, free: summary.free_disclosure };
  setInformation(summary.information);
  $("go-free").hidden = !(ceiling.free > 0);
  $("budget").max = ceiling.leakage / perLeakage();
  $("budget-unit").textContent = leakageUnit();
  $("keep-about").textContent = summary.along === "utility" ? ` about ${summary.task}` : "";
  const groups = summary.groups;
  $("group-row").hidden = groups.length < 2;
  $("group").replaceChildren(new Option("all combinations", ""), ...groups.map((g) => new Option(`${summary.group_name}: ${g}`, g)));
  choose(chosen !== null && chosen <= ceiling.disclosure ? chosen : summary.suggested);
}

export function reset() {
  chosen = null;
  beside.reset();
}

// Move everything on the page that can follow at once, and ask the server for the rest.
export function choose(disclosure) {
  chosen = Math.min(Math.max(disclosure, 0), ceiling.disclosure);
  follow(chosen);
  ask({ disclosure: String(chosen) });
}

function follow(disclosure) {
  const chart = curve.current();
  $("slider").value = Math.round((STEPS * disclosure) / (ceiling.disclosure || 1));
  $("slider").setAttribute("aria-valuetext", `${percent(disclosure / (ceiling.disclosure || 1))} of the information`);
  if (!("typing" in $("keep").dataset)) $("keep").value = ((100 * disclosure) / (ceiling.disclosure || 1)).toFixed(1);
  if (chart) chart.mark(disclosure, window.privfunnel.interpolate(chart.points(), disclosure));
}

const ask = latest(70, async (current, query) => {
  const width = Math.floor($("heat").clientWidth || $("point").clientWidth - 40);
  $("meaning").classList.add("busy");
  try {
    const group = $("group").value;
    const columns = window.innerWidth > 760 ? 2 : 1;
    const found = await api.get("point", { ...query, group, form: $("form").value, width: String(Math.floor((width - 36 * (columns - 1)) / columns)) });
    if (current()) show(found);
  } catch (error) {
    if (current()) complain(error);
  } finally {
    if (current()) $("meaning").classList.remove("busy");
  }
});

function show(found) {
  complain(null);
  refuse("keep", true);
  refuse("budget", true);
  chosen = found.at;
  follow(chosen);
  const chart = curve.current();
  if (chart) chart.mark(found.at, found.leakage);
  if (!("typing" in $("budget").dataset)) $("budget").value = (found.leakage / perLeakage()).toFixed(4);
  $("figures").replaceChildren(...[
    ...(found.task ? [[`Kept of ${found.task.name}`, amount(found.task.utility), `${percent(found.task.share)} of I(U;X)`]] : []),
    ["Disclosed", amount(found.disclosure), `${percent(found.disclosure_share)} of H(X)`],
    [found.leakage_name ? `Leaked, by ${found.leakage_name}` : "Leaked", leaked(found.leakage), `${percent(found.leakage_share)} of ${found.leakage_whole}`],
    ...bounds(found),
  ].flatMap(([name, value, more]) => [el("div", {}, el("dt", {}, name), el("dd", {}, value, el("small", {}, more)))]));
  $("sharpen").hidden = found.status === "optimal";
  unlock("meaning");
  unlock("export");
  $("in-words").textContent = found.task ? `${found.task.words} ${found.words}` : found.words;
  $("people").replaceChildren(...found.people.map((sentence) => el("li", {}, sentence)));
  guesses("guesses", found.guesses);
  $("useful-part").hidden = !found.useful.length;
  guesses("useful", found.useful);
  kept(found.kept);
  $("worst").replaceChildren(head(["", "value", "in words"]), el("tbody", {}, ...found.worst.map((row) =>
    el("tr", {}, el("th", { scope: "row" }, row.name), el("td", { class: "num" }, row.value), el("td", {}, row.words)))));
  // Drawn by the server with every text escaped.
  keepingFocus($("heat"), () => { $("heat").innerHTML = found.heat; });
  window.privfunnel.heatmaps($("heat"));
  $("heat").classList.toggle("two", !found.classes.length);
  $("heat-note").textContent = found.classes.length
    ? "Combinations of public values that tell the same about the private ones form a class: a row of the picture. Released symbols that say the same of the classes form a group: a column. Point at a cell, or use the arrow keys."
    : "Each row is a combination of public values; each column a symbol that is released instead. Point at a cell, or use the arrow keys.";
  $("group-row").hidden = found.classes.length > 0 || $("group").options.length < 3;
  search.show(found);
  release.show(found);
  exports(found);
  beside.follow(found.at);
  say(found.words);
}

// What is proved of releases that leak less. Less than nothing is no question, and a bound of nothing says nothing.
function bounds(found) {
  if (found.nothing_leaks) return [["Could a release leak less?", "no", "leakage is never negative"]];
  const name = found.task ? `No release as good for ${found.task.name} leaks less than` : "No release leaks less than";
  return [
    found.bound_known ? [name, leaked(found.lower_bound), found.bound_source] : [name, "not known", "nothing is proved"],
    ["Gap", leaked(found.gap, 6), found.advice],
  ];
}

function guesses(id, rows) {
  $(id).replaceChildren(head(["", "without", "with release", "original", ""]), el("tbody", {}, ...rows.map((row) =>
    el("tr", {}, el("th", { scope: "row" }, row.name), el("td", { class: "num" }, percent(row.before)),
      el("td", { class: "num" }, el("b", {}, percent(row.after))), el("td", { class: "num" }, percent(row.original)),
      el("td", { class: "wide" }, bar([["prior", 0, row.before], ["gain", row.before, row.after]], [row.original]))))));
}

function kept(rows) {
  $("kept").replaceChildren(head(["", "kept", `of ${unitName()}`, ""]), el("tbody", {}, ...rows.map((row) =>
    el("tr", {}, el("th", { scope: "row" }, row.name), el("td", { class: "num" }, el("b", {}, percent(row.share))),
      el("td", { class: "num" }, number(row.entropy)), el("td", { class: "wide" }, bar([["fill", 0, row.share]]))))));
}

// A file is made when it is asked for, which may take a while: the page says so, and why it fails if it does.
async function fetchIt(event) {
  const link = event.currentTarget;
  if (link.dataset.made !== undefined) { // the click below
    delete link.dataset.made;
    return;
  }
  event.preventDefault();
  if (link.getAttribute("aria-busy") === "true") return;
  link.setAttribute("aria-busy", "true");
  complain(null);
  try {
    if (await working(`Preparing ${link.download}`, () => api.prepare(link.href)) === null) return;
    link.dataset.made = "";
    link.click();
    say(`${link.download} is ready.`);
  } catch (error) {
    complain(error);
  } finally {
    link.removeAttribute("aria-busy");
    release.entered();
  }
}

function exports(found) {
  const query = new URLSearchParams({ disclosure: String(found.at), form: found.form });
  const of = found.task ? ` of ${found.task.name}` : "";
  $("export-point").textContent = `${percent(found.at_share)}${of} kept, ${leaked(found.leakage)} leaked${found.leakage_name ? ` by ${found.leakage_name}` : ""}`;
  keepingFocus($("downloads"), () => document.querySelectorAll("#downloads ul").forEach((list) =>
    list.replaceChildren(...found.downloads.filter((file) => file.group === list.dataset.group).map((file) =>
      el("li", {}, el("a", { href: `${api.path("export/" + file.name)}?${query}`, download: file.name, onclick: fetchIt },
        el("b", {}, file.title), el("small", {}, file.about)))))));
  $("command").textContent = found.command;
  $("script").textContent = found.script;
}
