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
  const rows = [["this release", found.share, "every public column, values drawn"], ...found.others.map((other) =>
    [other.method, other.share, done(other.done, found.columns),
      other.exact ? "" : ` (the best of ${other.tried.toLocaleString("en")} that were tried)`])];
  $("instead").replaceChildren(head(["", "kept", "", "how"]), el("tbody", {}, ...rows.map(([name, share, how, tried = ""], i) =>
    el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "num" }, el("b", {}, percent(share))),
      el("td", { class: "wide" }, bar([[i ? "other" : "fill", 0, share]])), el("td", {}, how + tried)))));
}

function done(changes, columns) {
  const dropped = Object.keys(changes).filter((name) => changes[name] === "dropped");
  const coarser = Object.entries(changes).filter(([, what]) => what !== "dropped").map(([name, what]) => `${name}: ${what}`);
  if (dropped.length === columns) return "nothing is left";
  return [...coarser, dropped.length ? `without ${dropped.join(", ")}` : ""].filter(Boolean).join("; ") || "everything as it is";
}
