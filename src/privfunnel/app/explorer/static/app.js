// The explorer: one page, six steps. Each step is a module; this file only connects them.
import { $, api, complain, setUnit } from "./dom.js";
import * as table from "./table.js";
import * as curve from "./curve.js";
import * as point from "./point.js";

const SIGN_OF_LIFE = 60_000; // milliseconds

function watchSteps() {
  const links = [...document.querySelectorAll(".steps a")];
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links) link.classList.toggle("now", link.hash === `#${entry.target.id}`);
    }
  }, { rootMargin: "-20% 0px -60% 0px" });
  document.querySelectorAll("section.card").forEach((section) => seen.observe(section));
}

async function changeUnit() {
  try {
    const { warnings } = await api.post("units", { units: $("units").value });
    table.warn(warnings);
    setUnit($("units").value);
    await curve.redraw();
  } catch (error) {
    complain(error);
  }
}

async function main() {
  watchSteps();
  table.listen(); // before anything is asked of the server: a file that is chosen at once waits, and is not lost
  try {
    const hello = await api.hello();
    await api.open();
    addEventListener("pagehide", () => api.close());
    addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); }); // its data went when it was left
    setInterval(() => api.get("news").catch(() => {}), SIGN_OF_LIFE);
    curve.setUp(hello, { onPick: point.choose, onCurve: point.begin });
    point.setUp();
    table.setUp(hello, {
      onReset: () => { curve.reset(); point.reset(); },
      onRoles: curve.offer,
    });
    $("units").addEventListener("change", changeUnit);
    $("table").dataset.ready = "";
  } catch (error) {
    complain(error);
  }
}

main();
