// The bins of one column: rules that fit its type, a histogram with the cuts, and what was chosen.
import { $, el, svg } from "./dom.js";

const EACH = ["none", "each value"];
const RULES = {
  number: [EACH, ["bins", "bins of equal width"], ["width", "bins this wide"], ["quantiles", "quantiles"], ["edges", "edges"]],
  date: [EACH, ["year", "by year"], ["quarter", "by quarter"], ["month", "by month"], ["weekday", "by weekday"],
    ["years", "groups of years"], ["ages", "age groups"]],
  text: [EACH, ["top", "most frequent"]],
};
const COUNTED = ["bins", "width", "quantiles", "top", "years", "ages"];
const FEW = 3; // values of a text that need no grouping

function rulesOf(column) {
  if (column.histogram) return RULES.number;
  if (column.type === "date" || column.type === "datetime") return RULES.date;
  return column.type === "text" && column.distinct > FEW ? RULES.text : null;
}

export function controls(column, i, suggested, onChange) {
  const rules = rulesOf(column);
  if (!rules) return el("div", {});
  const start = suggested || { rule: "none" };
  const rule = el("select", { id: `rule-${i}`, "aria-label": `Bins of ${column.name}`, onchange: onChange },
    ...rules.map(([value, text]) => el("option", { value, selected: value === start.rule }, text)));
  const number = el("input", { type: "number", id: `number-${i}`, min: 0, step: "any", value: start.number || (rules === RULES.text ? 10 : 4),
    oninput: onChange });
  const edges = el("input", { type: "text", id: `edges-${i}`, placeholder: "e.g. 30, 45, 60", value: (start.edges || []).join(", "),
    "aria-label": `Edges of the bins of ${column.name}`, oninput: onChange });
  const at = el("label", { id: `at-${i}` }, "on ", el("input", { type: "date", value: new Date().toISOString().slice(0, 10),
    "aria-label": `Day of the ages of ${column.name}`, onchange: onChange }));
  return el("div", { class: "bins" }, column.histogram ? histogram(column, i) : null, rule, number, edges, at);
}

// What is chosen for a column, or null; controls that do not belong to it are hidden.
export function chosen(column, i, used) {
  if (!$(`rule-${i}`)) return null;
  const rule = $(`rule-${i}`).value;
  $(`rule-${i}`).hidden = !used;
  $(`number-${i}`).hidden = !used || !COUNTED.includes(rule);
  $(`number-${i}`).setAttribute("aria-label", `${rule === "width" ? "Width of the" : "Number of"} bins of ${column.name}`);
  $(`edges-${i}`).hidden = !used || rule !== "edges";
  $(`at-${i}`).hidden = !used || rule !== "ages";
  if (!used || rule === "none") return null;
  if (rule === "edges") return { rule, edges: $(`edges-${i}`).value.split(/[,;\s]+/).filter(Boolean).map(Number) };
  if (rule === "ages") return { rule, number: Number($(`number-${i}`).value), at: $(`at-${i}`).querySelector("input").value };
  return COUNTED.includes(rule) ? { rule, number: Number($(`number-${i}`).value) } : { rule };
}

function histogram(column, i) {
  const { counts } = column.histogram;
  const top = Math.max(...counts, 1);
  const wide = 120 / counts.length;
  return svg("svg", { class: "histogram", viewBox: "0 0 120 34", role: "img", id: `histogram-${i}`,
    "aria-label": `Histogram of ${column.name}` },
    ...counts.map((count, k) => svg("rect", {
      x: k * wide + 0.5, width: Math.max(wide - 1, 0.5), y: 33 - (31 * count) / top, height: (31 * count) / top + 1 })));
}

export function drawEdges(column, i, edges) {
  const picture = $(`histogram-${i}`);
  picture.querySelectorAll("line").forEach((line) => line.remove());
  const { low, high } = column.histogram;
  for (const edge of edges || []) {
    const x = (120 * (edge - low)) / (high - low || 1);
    if (x > 0 && x < 120) picture.append(svg("line", { x1: x, x2: x, y1: 0, y2: 34 }));
  }
}
