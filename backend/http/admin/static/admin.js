// Refreshes the page while it is visible.

import { clock, setAttribute, setText } from "./dom.js";
import { showViews, start } from "./lookup.js";
import { request } from "./requests.js";
import { askForToken, showData, startSignIn } from "./sign_in.js";
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
let signedOut = false; // whether a token is needed

async function refresh() {
  clearTimeout(timer);
  if (pending) return;
  if (document.hidden) {
    showStatus();
    return;
  }
  pending = true;
  try {
    const response = await request("admin/topology.json", AbortSignal.timeout(TIMEOUT));
    signedOut = response.status === 401 || response.status === 403;
    if (signedOut) await askForToken(response);
    else if (!response.ok) throw new Error(`status ${response.status}`);
    else {
      receive(await response.json());
      showData();
    }
    failure = null;
  } catch (error) {
    failure = error.name === "TimeoutError" ? `no answer within ${TIMEOUT / 1000} s`
      : error instanceof TypeError ? "connection failed" : error.message;
  } finally {
    pending = false;
    showStatus();
    if (!signedOut) timer = setTimeout(refresh, INTERVAL);
  }
}

/** Shows a topology. Behind a proxy any instance answers, and its topology may be an older one. */
function receive(topology) {
  const received = topology.epoch.split("-").map(Number);
  const difference = received[0] - epoch[0] || received[1] - epoch[1];
  const now = performance.now();
  if (difference < 0 && now - receivedAt < KEEP_NEWER) return;
  show(topology);
  showViews(topology.views);
  epoch = received;
  receivedAt = now;
  madeAt = topology.made_at;
  setText(byId("epoch"), topology.known ? topology.epoch : "none yet");
  setText(byId("asked"), topology.asked);
  setText(byId("made-at"), clock(madeAt));
}

function showStatus() {
  const live = failure ? "lost" : signedOut || document.hidden ? "paused" : "live";
  setAttribute(byId("live"), "data-live", live);
  const paused = signedOut ? "signed out" : "paused";
  setText(byId("live-text"), { lost: "no answer", paused, live: "live, every 2 s" }[live]);
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

document.addEventListener("visibilitychange", () => {
  if (!signedOut) refresh();
});
start();
startSignIn(refresh);
refresh();
