// What takes longer than a look, a file or an audit: the page says how far it is, and it can be stopped.
import { $, api, say, seconds } from "./dom.js";

let under = []; // the runs under way

export function setUp() {
  $("work-stop").addEventListener("click", async () => {
    for (const run of under) run.stopped = true;
    await api.post("stop").catch(() => {});
  });
}

// Wait for a request; null where it was stopped.
export async function working(what, request) {
  const run = { stopped: false, since: performance.now(), held: document.activeElement };
  under.push(run);
  $("work").hidden = false;
  tell(what, {});
  say(`${what}…`);
  const watch = setInterval(async () => {
    const news = await api.get("news").catch(() => ({}));
    if (under[0] === run) tell(`${news.message || what}… ${seconds(run.since)} s`, news);
  }, 500);
  try {
    return await request();
  } catch (error) {
    if (!run.stopped) throw error;
    say("Stopped.");
    return null;
  } finally {
    clearInterval(watch);
    under = under.filter((each) => each !== run);
    if (!under.length) {
      if (document.activeElement === $("work-stop") && run.held) run.held.focus({ preventScroll: true });
      $("work").hidden = true;
    }
  }
}

function tell(text, news) {
  $("work-text").textContent = text;
  if (news.total) $("work-bar").value = news.done / news.total;
  else $("work-bar").removeAttribute("value");
}
