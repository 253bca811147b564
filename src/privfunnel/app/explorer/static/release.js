// What a row becomes: one record, candidates with weights, or a symbol; and the audit of the file that holds it.
import { $, api, complain, el, latest, percent } from "./dom.js";
import { working } from "./work.js";

const ABOUT = {
  records: "A record is drawn for each row, in the columns of the table: readable at once, and it keeps less.",
  decoys: "Each row is written as a few candidates, the true one among them, with weights that say how likely each is: all that the release says, for analysts who compute with weights.",
  symbols: "A name for each row; the codebook says what it means.",
};
let shown = null; // the point that is shown
let place = () => null;

export function setUp(onForm, chosen) {
  place = chosen;
  $("form").addEventListener("change", () => { forget(); onForm(); });
  $("audit").addEventListener("click", check);
}

function forget() {
  $("audited").hidden = true;
  $("findings").replaceChildren();
}

export function show(found) {
  if (!shown || shown.at !== found.at || shown.command !== found.command) forget();
  shown = found;
  account(found.at);
  for (const option of $("form").options) option.disabled = !found.forms.includes(option.value);
  $("form").value = found.form;
  $("audit-form").textContent = found.form;
  $("form-about").textContent = [ABOUT[found.form], ...(found.form === "decoys" ? found.told_by_decoys : [])].join(" ");
  const weighed = found.form === "decoys";
  const names = found.form === "symbols" ? [...found.names, "symbol"] : weighed ? [...found.names, "weight"] : found.names;
  $("samples").replaceChildren(
    el("thead", {}, el("tr", {}, el("td", {}), ...names.map((name) => el("th", { scope: "col" }, name)))),
    ...found.samples.map((row) => el("tbody", {},
      line("before", row.before, null, found.form === "records" ? [] : [""]), ...after(row, found.form))));
}

function after(row, form) {
  if (form === "symbols") return [line("after", row.before.map(() => ""), null, [row.symbol])];
  if (form === "decoys") {
    return row.candidates.map((each, i) => line(i ? "or" : "after", each.values, row.before, [percent(each.weight)]));
  }
  return [line("after", row.after, row.before)];
}

const line = (name, values, before, more = []) =>
  el("tr", {}, el("th", { scope: "row" }, name), ...values.map((value, i) =>
    el("td", { class: before && value !== before[i] ? "changed" : "" }, value)),
  ...more.map((value) => el("td", { class: "num" }, value)));

// What the ledger says of this point: how much all draws tell together, and whether this one would be refused.
const account = latest(300, async (current, disclosure) => {
  const found = await api.get("ledger", { disclosure: String(disclosure) }).catch(() => ({ kept: false }));
  if (!current()) return;
  $("ledger").hidden = !found.kept;
  if (!found.kept) return;
  const budget = found.budget ? ` The budget is ${found.budget}.` : "";
  $("ledger").classList.toggle("bad", Boolean(found.refused));
  $("ledger").replaceChildren(el("b", {}, `Ledger ${found.name}: `), found.words, budget, found.entered
    ? " This release stands in it."
    : found.refused ? ` This release would be refused: ${found.refused}.` : ` Its first download, or its audit, enters it: ${found.after}`);
});

export function entered() {
  if (place() !== null) account(place());
}

// Draws the release where that was not done yet, and looks at the file.
async function check() {
  const button = $("audit");
  if (button.getAttribute("aria-busy") === "true" || place() === null) return;
  button.setAttribute("aria-busy", "true");
  button.textContent = "Auditing…";
  complain(null);
  const asked = { disclosure: String(place()), form: $("form").value };
  try {
    const found = await working("Auditing the release", () => api.get("audit", asked));
    if (found === null || String(place()) !== asked.disclosure || $("form").value !== asked.form) return; // another point since
    $("verdict").replaceChildren(el("b", {}, found.passed ? "No check failed." : "A check failed."), ` ${found.rows.toLocaleString("en")} rows, as ${asked.form}; amounts are in bits.`);
    $("findings").replaceChildren(...found.words.map((sentence) => el("li", {}, sentence)));
    $("audited").hidden = false;
  } catch (error) {
    complain(error);
  } finally {
    button.removeAttribute("aria-busy");
    button.textContent = "Audit the release";
    entered();
  }
}
