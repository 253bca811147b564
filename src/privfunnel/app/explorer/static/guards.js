// Step 3, behind the fold: who may know what, what holds for every released value, and what leakage is measured by.
import { $, el } from "./dom.js";

const ROLES = [["", "not known"], ["known", "may be known"], ["published", "published as it is"]];
const PAIRS = ["guarantee", "guarantee-2"];
let measures = [];

export function setUp(hello) {
  const examples = Object.fromEntries(hello.guarantees.map((each) => [each.name, each.example]));
  for (const id of PAIRS) {
    const named = hello.guarantees.map((each) => new Option(each.title, each.name));
    $(id).replaceChildren(new Option("none", ""), ...named);
    $(id).addEventListener("change", () => { $(`${id}-value`).value = examples[$(id).value] || "0.5"; });
  }
  measures = hello.measures;
  $("measure").replaceChildren(...measures.map((each) => new Option(each.title, each.name)));
  $("measure").addEventListener("change", explain);
  $("guard-columns").addEventListener("change", fold);
  $("guarantee").addEventListener("change", fold);
  explain();
  fold();
}

// Ask only what makes a difference: who knows several columns, and a second guarantee beside a first.
function fold() {
  $("together-row").hidden = named("known").length < 2;
  $("guarantee-2-row").hidden = !$("guarantee").value && !$("guarantee-2").value;
}

const chosen = () => measures.find((each) => each.name === $("measure").value) || measures[0];

function explain() {
  const { title, about } = chosen();
  $("measure-about").textContent = `${title[0].toUpperCase()}${title.slice(1)}: ${about}.`;
}

// Whether leakage is an amount of information, as the measure has it.
export const information = () => chosen().information;

const selects = () => [...$("guard-columns").querySelectorAll("select")];
const named = (role) => selects().filter((select) => select.value === role).map((select) => select.dataset.column);

// Offer the public columns; what was said of those that stay is kept.
export function offer(names) {
  const said = Object.fromEntries(selects().map((select) => [select.dataset.column, select.value]));
  $("guard-columns").replaceChildren(...names.map((name) => {
    const select = el("select", { "data-column": name }, ...ROLES.map(([value, text]) => new Option(text, value)));
    select.value = said[name] || "";
    return el("label", {}, `${name} `, select);
  }));
  fold();
}

export function asked() {
  const single = named("known");
  const readers = { "": single.map((name) => [name]), all: [single], both: [...single.map((name) => [name]), single] };
  return {
    known: single.length > 1 ? readers[$("together").value] : readers[""],
    published: named("published"),
    guarantees: PAIRS.filter((id) => $(id).value).map((id) => `${$(id).value}=${$(`${id}-value`).value.trim()}`),
    measure: $("measure").value,
  };
}
