// Steps 1 and 2: load a table, preview it, give its columns roles and bins.
import { $, api, complain, el, latest, lock, say, seconds, unlock } from "./dom.js";
import * as bins from "./bins.js";
import * as reading from "./reading.js";

const ROWS = ["person", "cluster", "weights", "missing", "task"]; // what may be said of the table besides

let columns = [];
let onReset = () => {};
let onRoles = () => {};
let limit = { bytes: Infinity, text: "" };

let waiting = null; // what was chosen before the server was ready
let ready = false;

// The controls that work before the server has answered.
export function listen() {
  $("file").addEventListener("change", () => {
    const file = $("file").files[0];
    if (file) upload(file);
    $("file").value = "";
  });
  const drop = $("drop");
  for (const name of ["dragover", "drop", "dragleave"]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", name === "dragover");
      if (name === "drop" && event.dataTransfer.files.length) upload(event.dataTransfer.files[0]);
    });
  }
  if ($("file").files.length) { // chosen before this script ran
    upload($("file").files[0]);
    $("file").value = "";
  }
}

export function setUp(hello, callbacks) {
  ({ onReset, onRoles } = callbacks);
  limit = { bytes: hello.max_bytes, text: hello.max_upload };
  $("max-upload").textContent = limit.text;
  $("examples").replaceChildren(...hello.examples.map((example) =>
    el("button", { type: "button", "data-example": example.name, onclick: () => { again = null; load(() => api.post("example", { name: example.name })); } },
      example.title, el("small", {}, example.about))));
  $("read-again").addEventListener("click", () => { if (again) again(); });
  ROWS.forEach((name) => $(name).addEventListener("change", check));
  ready = true;
  if (waiting) upload(waiting);
  else if (hello.given) readable(() => load(() => api.post(`given?${new URLSearchParams({ read: JSON.stringify(reading.asked()) })}`)));
  waiting = null;
}

function upload(file) {
  if (!ready) {
    waiting = file;
    tell(`${file.name} is next: the explorer is starting…`);
  } else if (file.size > limit.bytes) {
    loading(false);
    complain(new Error(`${file.name} is larger than ${limit.text}, the limit for files that are dropped: start “privfunnel explore” with its name instead, and it is read where it lies`));
  } else {
    readable(() => load((sent) => api.upload(file, reading.asked(), sent), file.name));
  }
}

let again = null; // reads the same file once more
let kept = null; // roles that outlive that

// Load a file that can be read in several ways, and offer them.
function readable(request) {
  again = request;
  kept = null;
  reading.forget();
  request();
}

function loading(on) {
  $("table").classList.toggle("loading", on);
  $("table").setAttribute("aria-busy", on);
  $("loading").hidden = !on;
}

function tell(text, share = null) {
  loading(true);
  $("loading-text").textContent = text;
  if (share === null) $("loading-bar").removeAttribute("value");
  else $("loading-bar").value = share;
}

let turn = 0;

async function load(request, name = "") {
  complain(null);
  say("Loading the table…");
  const mine = ++turn;
  const since = performance.now();
  let share = name ? 0 : 1;
  tell(name ? `Copying ${name}…` : "Loading the table…");
  const watch = setInterval(async () => {
    if (share < 1) return;
    const news = await api.get("news").catch(() => ({}));
    if (mine !== turn) return;
    tell(`${news.message || "Reading the table"}… ${seconds(since)} s`, news.total ? news.done / news.total : null);
  }, 400);
  try {
    const table = await request((sent) => {
      share = sent;
      if (mine === turn) tell(sent < 1 ? `Copying ${name}: ${Math.round(100 * sent)} %` : "Reading the table…", sent < 1 ? sent : null);
    });
    if (mine === turn) show(table);
  } catch (error) {
    if (mine === turn) complain(error);
  } finally {
    clearInterval(watch);
    if (mine === turn) {
      turn += 1; // an answer of the watch that is still under way comes too late
      loading(false);
    }
  }
}

function show(table) {
  onReset();
  lock("curve", "point", "meaning", "export");
  columns = table.columns;
  const roles = { ...table.roles, ...kept, bins: table.roles.bins };
  const said = kept || {};
  kept = null;
  const rows = table.rows.toLocaleString("en");
  $("table-summary").replaceChildren(el("b", {}, table.name), ` · ${rows} rows · ${columns.length} columns`);
  $("preview").replaceChildren(
    el("thead", {}, el("tr", {}, ...columns.map((c) =>
      el("th", { scope: "col" }, c.name, el("small", {}, `${c.type} · ${c.distinct.toLocaleString("en")} distinct`))))),
    el("tbody", {}, ...table.preview.map((row) => el("tr", {}, ...row.map((value) =>
      value === null ? el("td", { class: "null" }, "missing") : el("td", {}, value))))));
  $("table-loaded").hidden = false;
  $("columns").replaceChildren(...columns.map((column, i) => roleRow(column, i, roles)));
  $("person").replaceChildren(new Option("somebody else in every row", ""), ...columns.map((column) => new Option(`the person in ${column.name}`, column.name)));
  $("cluster").replaceChildren(new Option("every row alone", ""), ...columns.map((column) => new Option(`rows with the same ${column.name}`, column.name)));
  $("weights").replaceChildren(new Option("one person", ""), ...columns.filter((column) => ["integer", "number"].includes(column.type)).map((column) => new Option(`as many people as ${column.name} says`, column.name)));
  $("task").replaceChildren(new Option("anything: it tells as much as it can", ""), ...columns.map((column) => new Option(`predicting ${column.name}`, column.name)));
  ROWS.forEach((name) => { $(name).value = said[name] || ""; });
  reading.show(again ? table.reading : reading.NOTHING, columns);
  unlock("roles");
  say(`${table.name} loaded: ${rows} rows, ${columns.length} columns.`);
  check();
}

function roleRow(column, i, roles) {
  const isPrivate = roles.private.includes(column.name);
  const isPublic = roles.public.includes(column.name);
  const now = isPrivate && isPublic ? "both" : isPrivate ? "private" : isPublic ? "public" : "ignore";
  const nulls = column.nulls ? ` · ${column.nulls.toLocaleString("en")} missing` : "";
  const buttons = [["ignore", "Ignore"], ["public", "Public"], ["private", "Private"], ["both", "Both"]].map(([value, text]) =>
    el("label", {}, el("input", { type: "radio", name: `role-${i}`, value, checked: value === now, onchange: check }),
      el("span", {}, text)));
  return el("div", { class: "column", "data-column": column.name },
    el("div", { class: "name" }, el("b", {}, column.name),
      el("small", {}, `${column.type} · ${column.distinct.toLocaleString("en")} distinct${nulls}`)),
    el("fieldset", { class: "roles" }, el("legend", { class: "visually-hidden" }, `Role of ${column.name}`), ...buttons),
    bins.controls(column, i, roles.bins[column.name], check),
    column.odd && again ? question(column) : null);
}

// A column of numbers with a few texts: nothing is taken for granted, it is asked.
function question(column) {
  const { words, nulls } = column.odd;
  const answer = (change) => () => { change(); kept = readRoles(); again(); };
  const means = nulls.join(", ");
  return el("p", { class: "question small" }, `${column.name} is text now: it holds ${words}. `,
    nulls.length ? el("button", { type: "button", onclick: answer(() => reading.alsoMissing(nulls)) }, `${means} means missing`) : null,
    nulls.length ? " " : "Is the header further down? Say so under “Change how the file is read”. ",
    el("button", { type: "button", onclick: answer(() => reading.readAs(column.name, "text")) }, "It is text"));
}

function readRoles() {
  const roles = { private: [], public: [], bins: {}, ...Object.fromEntries(ROWS.map((name) => [name, $(name).value])) };
  columns.forEach((column, i) => {
    const role = document.querySelector(`input[name="role-${i}"]:checked`).value;
    if (role === "private" || role === "both") roles.private.push(column.name);
    if (role === "public" || role === "both") roles.public.push(column.name);
    const rule = bins.chosen(column, i, role !== "ignore" || column.name === roles.task);
    if (rule) roles.bins[column.name] = rule;
  });
  return roles;
}

function check() {
  const roles = readRoles();
  onReset();
  lock("curve", "point", "meaning", "export");
  if (!roles.private.length || !roles.public.length) {
    $("size").textContent = "";
    return;
  }
  count(roles);
}

// What the roles were warned of; again when the unit changes.
export function warn(warnings) {
  if ($("warnings")) $("warnings").replaceChildren(...warnings.map((warning) => el("span", { class: "warn" }, warning)));
}

const count = latest(200, async (current, roles) => {
  const since = performance.now();
  const wait = el("span", {}, "Counting…");
  $("size").replaceChildren(el("progress", { "aria-label": "Counting the rows" }), " ", wait);
  const watch = setInterval(() => { wait.textContent = `Counting… ${seconds(since)} s`; }, 1000);
  let problem;
  try {
    problem = await api.post("roles", roles);
  } catch (error) {
    if (current()) $("size").replaceChildren(el("span", { class: "bad" }, error.message));
    return;
  } finally {
    clearInterval(watch);
  }
  if (!current()) return;
  columns.forEach((column, i) => { if (column.histogram) bins.drawEdges(column, i, problem.edges[column.name]); });
  $("size").replaceChildren(
    el("b", {}, `${problem.n_s} private × ${problem.n_x} public combinations`), ` from ${problem.rows.toLocaleString("en")} rows${problem.persons ? ` about ${problem.persons.toLocaleString("en")} persons` : ""}${problem.clusters ? ` in ${problem.clusters.toLocaleString("en")} clusters` : ""}${problem.n < problem.rows ? `, worth ${problem.n.toLocaleString("en")} equal ones` : ""}${problem.dropped ? `; ${problem.dropped.toLocaleString("en")} with missing values are left out` : ""}. `,
    problem.estimate, el("span", { id: "warnings" }));
  warn(problem.warnings);
  onRoles(roles.public, roles.task);
  unlock("curve");
});
