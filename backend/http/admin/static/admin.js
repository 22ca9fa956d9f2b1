// Keeps the page up to date while somebody looks at it.

import { clock, setAttribute, setText } from "./dom.js";
import { start } from "./lookup.js";
import { show } from "./topology.js";

const EVERY = 2000; // ms between an answer and the next question
const TIMEOUT = 5000; // ms
const OLD_MAPS = 10_000; // ms for which a map that is older than the one shown is left alone

const byId = (id) => document.getElementById(id);
let timer = null;
let asking = false;
let epoch = [0, 0];
let takenAt = 0; // when the last one was taken, ms; the page's own clock
let madeAt = null; // as of when that was
let failing = null; // why there is no newer one

async function refresh() {
  clearTimeout(timer);
  if (asking) return;
  if (document.hidden) {
    say();
    return;
  }
  asking = true;
  try {
    const answer = await fetch("admin/topology.json", {
      cache: "no-store",
      signal: AbortSignal.timeout(TIMEOUT),
    });
    if (!answer.ok) throw new Error(`it answered with status ${answer.status}`);
    take(await answer.json());
    failing = null;
  } catch (error) {
    failing = error.name === "TimeoutError" ? `no answer within ${TIMEOUT / 1000} s`
      : error instanceof TypeError ? "it cannot be reached" : error.message;
  } finally {
    asking = false;
    say();
    timer = setTimeout(refresh, EVERY);
  }
}

/** Behind a proxy any instance answers, and one may not have the newest map yet. */
function take(topology) {
  const theirs = topology.epoch.split("-").map(Number);
  const older = theirs[0] - epoch[0] || theirs[1] - epoch[1];
  const now = performance.now();
  if (older < 0 && now - takenAt < OLD_MAPS) return;
  show(topology);
  epoch = theirs;
  takenAt = now;
  madeAt = topology.made_at;
  setText(byId("epoch"), topology.known ? topology.epoch : "none yet");
  setText(byId("asked"), topology.asked);
  setText(byId("made-at"), clock(madeAt));
}

function say() {
  const live = failing ? "lost" : document.hidden ? "paused" : "live";
  setAttribute(byId("live"), "data-live", live);
  setText(byId("live-text"), { lost: "no answer", paused: "paused", live: "live, every 2 s" }[live]);
  document.body.classList.toggle("stale", failing !== null && madeAt !== null);
  const alert = byId("alert");
  alert.hidden = failing === null;
  if (failing === null) {
    setText(alert, "");
    return;
  }
  const since = madeAt === null ? "" : ` Below is what was true at ${clock(madeAt)}.`;
  setText(alert, `The backend does not answer (${failing}).${since} Asking again every 2 s.`);
}

document.addEventListener("visibilitychange", refresh);
start();
refresh();
