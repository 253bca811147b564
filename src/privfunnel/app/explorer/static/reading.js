// How the file is read: every option with what was found out, and the file again with what was changed.
import { $, el } from "./dom.js";

const fields = () => [...document.querySelectorAll("#reading [data-read]")];
const types = () => [...document.querySelectorAll("#reading [data-type]")];
const KINDS = ["text", "number", "integer", "boolean", "date", "datetime"];
const SEPARATORS = { ",": "commas", ";": "semicolons", tab: "tabs", "|": "bars", space: "blanks" };
const ORDERS = { ymd: "year first", dmy: "day first", mdy: "month first" };

// A new file: nothing is said of it yet.
export function forget() {
  for (const field of fields()) field.value = "";
  $("types").replaceChildren();
  $("types-fold").hidden = true;
  offer(fields().map((field) => field.dataset.read).filter((name) => name !== "types"));
  $("reading").hidden = false;
}

// Another sheet has titles of its own.
const sheets = document.querySelector('[data-read="sheet"]');
sheets.addEventListener("change", () => { document.querySelector('[data-read="skip_rows"]').value = ""; });

// Of an example, which is read as it was made.
export const NOTHING = { options: [], values: {}, sheets: [] };

function offer(names) {
  for (const field of fields()) field.closest("label").hidden = !names.includes(field.dataset.read);
}

// What is asked for: everything that the page shows, so that what is seen is what is done.
export function asked() {
  const read = {};
  for (const field of fields()) if (field.value) read[field.dataset.read] = field.value;
  const told = types().filter((select) => select.value).map((select) => [select.dataset.type, select.value]);
  if (told.length) read.types = Object.fromEntries(told);
  return read;
}

// Texts that mean missing, besides those that are said to already.
export function alsoMissing(texts) {
  const field = document.querySelector('[data-read="nulls"]');
  field.value = [...new Set([...field.value.split(",").map((text) => text.trim()).filter(Boolean), ...texts])].join(", ");
}

export function readAs(column, kind) {
  types().find((select) => select.dataset.type === column).value = kind;
}

export function show(found, columns) {
  $("reading").hidden = !found.options.length;
  offer(found.options);
  const sheet = document.querySelector('[data-read="sheet"]');
  sheet.replaceChildren(...found.sheets.map((name) => new Option(name, name)));
  for (const field of fields()) {
    const value = found.values[field.dataset.read] || "";
    if (field.tagName === "SELECT" && ![...field.options].some((option) => option.value === value)) field.add(new Option(value, value));
    field.value = value;
  }
  const said = found.values.types || {};
  $("types-fold").hidden = !found.options.includes("types");
  $("types").replaceChildren(...columns.map((column) => el("label", {}, `${column.name} `,
    el("select", { "data-type": column.name }, el("option", { value: "" }, `found out: ${column.type}`),
      ...KINDS.map((kind) => el("option", { value: kind, selected: said[column.name] === kind }, kind))))));
  $("read-as").textContent = words(found.values);
}

// What was found out, in a line.
function words(values) {
  const encoding = document.querySelector('[data-read="encoding"]');
  return [
    values.sheet && `sheet ${values.sheet}`,
    values.encoding && encoding.selectedOptions[0].textContent,
    values.delimiter && `separated by ${SEPARATORS[values.delimiter] || values.delimiter}`,
    values.decimal === "," && "decimal commas",
    values.dates && `dates ${ORDERS[values.dates]}`,
    Number(values.skip_rows) > 0 && `${values.skip_rows} ${values.skip_rows === "1" ? "row" : "rows"} above the header left out`,
  ].filter(Boolean).join(" · ");
}
