// The symbols of a mechanism: looked for by their values, and its most frequent classes.
import { $, api, el, head, latest, percent } from "./dom.js";

let place = () => null;

export function setUp(chosen) {
  place = chosen;
  $("symbol-search").addEventListener("input", look);
}

export function show(found) {
  $("class-list").hidden = !found.classes.length;
  $("class-about").textContent = `Share of the rows, some of the ${found.names.length === 1 ? "values" : "combinations"}, and the symbols that they are released as most often.`;
  $("classes").replaceChildren(head(["rows", "public values", "released as"]), el("tbody", {}, ...found.classes.map((c) => {
    const more = c.size > c.members.length ? ` … and ${(c.size - c.members.length).toLocaleString("en")} more` : "";
    return el("tr", {}, el("td", { class: "num" }, percent(c.share, 2)), el("td", {}, c.members.join(" · ") + more),
      el("td", {}, c.released.map(symbol).join(", ")));
  })));
  look();
}

const symbol = (y) => `${y.name} (${percent(y.p, y.p < 0.1 ? 1 : 0)})`;

const look = latest(250, async (current) => {
  const text = $("symbol-search").value.trim();
  $("found-part").hidden = !text;
  if (!text || place() === null) {
    $("found-count").textContent = "";
    return;
  }
  const found = await api.get("search", { disclosure: String(place()), text }).catch((error) => ({ message: error.message }));
  if (!current()) return;
  if (!found.found) {
    $("found-count").textContent = found.message;
    return;
  }
  const cut = found.count > found.found.length ? `, the ${found.found.length} most frequent are shown` : "";
  $("found-count").textContent = `${found.count.toLocaleString("en")} of ${found.total.toLocaleString("en")} combinations${cut}`;
  $("found-part").hidden = !found.count;
  $("found").replaceChildren(
    el("thead", {}, el("tr", {}, ...[...found.names, "rows", "class", "tells"].map((name) => el("th", { scope: "col" }, name)))),
    ...found.found.map((x) => el("tbody", {}, el("tr", {},
      ...x.values.map((value) => el("td", {}, value)), el("td", { class: "num" }, percent(x.share, 3)),
      el("td", {}, `${x.class}, of ${x.members.toLocaleString("en")}`),
      el("td", {}, x.private.map((s) => `${s.name}: ${percent(s.p)}`).join(", "))),
    el("tr", {}, el("td", { colspan: found.names.length + 3, class: "small" }, "May become ", ...becomes(x))))));
});

function becomes(x) {
  const own = x.values.join(", ");
  const told = (each) => `${percent(each.weight)} ${each.values.join(", ") === own ? "itself" : each.values.join(", ")}`;
  const lines = x.released.map((y) => el("div", {}, y.candidates.length ? `${symbol(y)}: ${y.candidates.map(told).join(" or ")}` : symbol(y)));
  const more = x.symbols - x.released.length;
  return more > 0 ? [...lines, el("div", {}, `and ${more.toLocaleString("en")} symbols more`)] : lines;
}
