// Refreshes the page while it is visible.

import { clock, setAttribute, setText } from "./dom.js";
import { start } from "./lookup.js";
import { show } from "./topology.js";

const INTERVAL = 2000; // ms between a response and the next request
const TIMEOUT = 5000; // ms
const KEEP_NEWER = 10_000; // ms for which older topologies are ignored

const byId = (id) => document.getElementById(id);
let timer = null;
let pending = false;
let epoch = [0, 0];
let receivedAt = 0; // when the shown topology was received, ms; performance.now()
let madeAt = null; // when it was made, ms; the instance's clock
let failure = null; // why the last request failed

async function refresh() {
  clearTimeout(timer);
  if (pending) return;
  if (document.hidden) {
    showStatus();
    return;
  }
  pending = true;
  try {
    const response = await fetch("admin/topology.json", {
      cache: "no-store",
      signal: AbortSignal.timeout(TIMEOUT),
    });
    if (!response.ok) throw new Error(`status ${response.status}`);
    receive(await response.json());
    failure = null;
  } catch (error) {
    failure = error.name === "TimeoutError" ? `no answer within ${TIMEOUT / 1000} s`
      : error instanceof TypeError ? "connection failed" : error.message;
  } finally {
    pending = false;
    showStatus();
    timer = setTimeout(refresh, INTERVAL);
  }
}

/** Shows a topology. Behind a proxy any instance answers, and its topology may be an older one. */
function receive(topology) {
  const received = topology.epoch.split("-").map(Number);
  const difference = received[0] - epoch[0] || received[1] - epoch[1];
  const now = performance.now();
  if (difference < 0 && now - receivedAt < KEEP_NEWER) return;
  show(topology);
  epoch = received;
  receivedAt = now;
  madeAt = topology.made_at;
  setText(byId("epoch"), topology.known ? topology.epoch : "none yet");
  setText(byId("asked"), topology.asked);
  setText(byId("made-at"), clock(madeAt));
}

function showStatus() {
  const live = failure ? "lost" : document.hidden ? "paused" : "live";
  setAttribute(byId("live"), "data-live", live);
  setText(byId("live-text"), { lost: "no answer", paused: "paused", live: "live, every 2 s" }[live]);
  document.body.classList.toggle("stale", failure !== null && madeAt !== null);
  const alert = byId("alert");
  alert.hidden = failure === null;
  if (failure === null) {
    setText(alert, "");
    return;
  }
  const since = madeAt === null ? "" : ` The page shows the state at ${clock(madeAt)}.`;
  setText(alert, `The backend does not answer: ${failure}.${since} Retrying every 2 s.`);
}

document.addEventListener("visibilitychange", refresh);
start();
refresh();
