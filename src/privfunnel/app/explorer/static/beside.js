// Beside a chosen point: what readers learn who know a column, and what one would do without the funnel. Both take longer
// to find than the point, and follow when they are there.
import { $, amount, api, bar, el, head, latest, percent } from "./dom.js";

const TABLES = ["known", "instead"];
let shown = null; // what is in the tables, and of which disclosure

export function reset() {
  shown = null;
  for (const id of TABLES) $(id).replaceChildren();
}

export function follow(disclosure) {
  if (shown) show(shown.found); // the unit may have changed
  for (const id of TABLES) $(id).classList.toggle("busy", !shown || shown.disclosure !== disclosure);
  ask(disclosure);
}

const ask = latest(500, async (current, disclosure) => {
  const found = await api.get("beside", { disclosure: String(disclosure) }).catch(() => ({}));
  if (!current() || !found.others) return;
  shown = { found, disclosure };
  show(found);
  for (const id of TABLES) $(id).classList.remove("busy");
});

function show(found) {
  const most = Math.max(...found.known.map((reader) => reader.ceiling), Number.MIN_VALUE);
  $("known").replaceChildren(head(["knows", "learns", "of", ""]), el("tbody", {}, ...found.known.map((reader) =>
    el("tr", {}, el("th", { scope: "row" }, reader.columns), el("td", { class: "num" }, el("b", {}, amount(reader.leakage, 4))),
      el("td", { class: "num" }, amount(reader.ceiling, 4)),
      el("td", { class: "wide" }, bar([["gain", 0, reader.leakage / most]], [reader.ceiling / most]))))));
  $("instead-about").textContent = found.task
    ? `What dropping columns, or coarser categories, leak at least if they are to be as good for ${found.task} as this release.`
    : "The most that dropping columns, or coarser categories, keep of what the public columns say, if they may leak no more than this release.";
  const value = (each) => (found.task ? each.leakage : each.share);
  const told = (each) => (found.task ? amount(each, 4) : percent(each));
  const whole = (found.task && found.leakage_ceiling) || 1;
  const rows = [["this release", value(found), "every public column, values drawn"], ...found.others.map((other) =>
    [other.method, value(other), done(other.done, found.columns),
      other.exact ? "" : ` (the best of ${other.tried.toLocaleString("en")} that were tried)`])];
  $("instead").replaceChildren(head(["", found.task ? "leaked" : "kept", "", "how"]), el("tbody", {}, ...rows.map(([name, each, how, tried = ""], i) =>
    el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "num" }, el("b", {}, told(each))),
      el("td", { class: "wide" }, bar([[i ? "other" : "fill", 0, each / whole]])), el("td", {}, how + tried)))));
}

function done(changes, columns) {
  const dropped = Object.keys(changes).filter((name) => changes[name] === "dropped");
  const coarser = Object.entries(changes).filter(([, what]) => what !== "dropped").map(([name, what]) => `${name}: ${what}`);
  if (dropped.length === columns) return "nothing is left";
  return [...coarser, dropped.length ? `without ${dropped.join(", ")}` : ""].filter(Boolean).join("; ") || "everything as it is";
}
