// Step 3: trace the curve in the background and draw what arrives.
import { $, api, complain, keepingFocus, leaked, lock, say, setInformation, unlock } from "./dom.js";
import * as guards from "./guards.js";

let source = null;
let chart = null;
let onPick = () => {};
let onCurve = () => {};

export const current = () => chart;

export function setUp(hello, callbacks) {
  ({ onPick, onCurve } = callbacks);
  for (const name of hello.solvers) $("solver").append(new Option(name, name));
  guards.setUp(hello);
  $("trace").addEventListener("click", () => start("trace"));
  $("refine").addEventListener("click", () => start("refine"));
  $("cancel").addEventListener("click", async () => {
    $("cancel").disabled = true;
    try { await api.post("cancel"); } catch (error) { complain(error); }
  });
}

// What the curve is about, and which of the public columns attackers may know, or everyone does.
export function offer(names, task) {
  $("curve-about").textContent = task
    ? `For every share of what the public columns tell about ${task}, the least that must leak about what is private.`
    : "For every amount of useful information, the least that must leak about what is private.";
  guards.offer(names);
}

export function reset() {
  if (source) source.close();
  source = null;
  chart = null;
  $("chart").replaceChildren();
  $("curve-note").textContent = "";
  $("refine").hidden = true;
  busy(false);
}

let pressed = null; // the button that began the run: it has the focus again when the run ends

function busy(running) {
  const held = document.activeElement;
  if (running) pressed = ["trace", "refine", "sharpen"].includes(held.id) ? held : null;
  if (running) $("cancel").hidden = false;
  // A button that is switched off or hidden would drop the focus: it waits on the other one.
  if (running && pressed) $("cancel").focus({ preventScroll: true });
  for (const id of ["trace", "refine", "sharpen"]) $(id).disabled = running;
  if (!running && pressed && (held === $("cancel") || held === document.body)) {
    (pressed.hidden ? $("trace") : pressed).focus({ preventScroll: true });
  }
  $("cancel").hidden = $("progress-row").hidden = !running;
  $("cancel").disabled = false;
  if (!running) pressed = null;
}

export async function start(task, options = {}) {
  complain(null);
  if (task === "trace") {
    lock("point", "meaning", "export");
    $("chart").replaceChildren();
  }
  busy(true);
  $("progress").removeAttribute("value");
  $("progress-text").textContent = "Starting…";
  try {
    const asked = task === "trace" ? { guarded: guards.asked() } : {};
    if (task === "trace") setInformation(guards.information());
    await api.post(task, { points: Number($("points").value), solver: $("solver").value, ...asked, ...options });
  } catch (error) {
    busy(false);
    complain(error);
    return;
  }
  if (source) source.close();
  source = new EventSource(api.path("events"));
  source.onmessage = (message) => handle(JSON.parse(message.data));
  // The server ends the stream after the last event; a browser that reconnects gets nothing new.
  source.onerror = () => { if (source && source.readyState === EventSource.CLOSED) busy(false); };
}

function handle(event) {
  if (event.kind === "progress") {
    const text = [event.message];
    if (event.value !== null && event.bound !== null) text.push(`gap ${leaked(Math.max(event.value - event.bound, 0), 6)}`);
    $("progress-text").textContent = text.filter(Boolean).join(" · ");
    if (event.total) $("progress").value = event.done / event.total;
  } else if (event.kind === "point") {
    draw(event.figure);
    if (event.total) $("progress").value = event.done / event.total;
    $("progress-text").textContent =
      `${event.done} of ${event.total} points · last: ${leaked(event.leakage)} leaked, gap ${leaked(event.gap, 6)}`;
  } else {
    finish(event);
  }
}

export function draw(figure) {
  // Drawn by the server with every text escaped.
  keepingFocus($("chart"), () => { $("chart").innerHTML = figure; });
  chart = window.privfunnel.funnel($("chart").querySelector("figure"), { onPick });
}

// The same curve in another unit.
export async function redraw() {
  if (!chart || source) return;
  const curve = await api.get("curve");
  draw(curve.figure);
  $("curve-note").textContent = curve.note;
  onCurve(curve);
}

async function finish(event) {
  if (source) source.close();
  source = null;
  if (event.kind === "failed") complain({ message: event.message });
  let curve;
  try {
    curve = await api.get("curve");
  } catch (error) {
    busy(false);
    if (event.kind !== "stopped") complain(error);
    $("chart").replaceChildren();
    $("curve-note").textContent = event.kind === "stopped" ? "Cancelled before the first point was found." : "";
    say("Cancelled.");
    return;
  }
  draw(curve.figure);
  busy(false); // not before: what is drawn until now is a sketch
  $("curve-note").textContent = curve.note;
  $("refine").hidden = false;
  say(event.kind === "stopped" ? `Cancelled. ${curve.note}` : `The curve is complete. ${curve.note}`);
  unlock("point");
  onCurve(curve);
}
