// Refreshes the page while it is visible.

import { askPermission, askPermissionIfUnknown, startActions } from "./actions.js";
import { startAppearance } from "./appearance.js";
import { showAttention } from "./attention.js";
import { startCharts } from "./charts.js";
import { startDeadLetters } from "./dead_letters.js";
import { clock, setAttribute, setText } from "./dom.js";
import { startGroups } from "./groups.js";
import { refreshHistory, startHistory } from "./history.js";
import { showInstances } from "./instances.js";
import { showViews, start } from "./explore.js";
import { askProxy, showProxy } from "./proxy.js";
import { request } from "./requests.js";
import { askForToken, showData, startSignIn } from "./sign_in.js";
import { showTotals } from "./totals.js";
import { showGrid } from "./views.js";

const INTERVAL = 1000; // ms between a response and the next request
const TIMEOUT = 5000; // ms
const KEEP_NEWER = 10_000; // ms for which older topologies are ignored

const byId = (id) => document.getElementById(id);
let timer = null;
let pending = false;
let epoch = [0, 0];
let receivedAt = 0; // when the shown topology was received, ms; performance.now()
let madeAt = null; // when it was made, ms; the instance's clock
let failure = null; // why the last request failed
let proxy = null; // what nginx reports; null without nginx
let signedOut = false; // whether a token is needed

async function refresh() {
  clearTimeout(timer);
  if (pending) return;
  if (document.hidden) {
    showStatus();
    return;
  }
  pending = true;
  const asked = askProxy();
  try {
    const response = await request("admin/topology.json", AbortSignal.timeout(TIMEOUT));
    signedOut = response.status === 401 || response.status === 403;
    if (signedOut) await askForToken(response);
    else if (!response.ok) throw new Error(await why(response));
    else {
      proxy = await asked;
      receive(await response.json());
      showData();
      askPermissionIfUnknown();
      refreshHistory();
    }
    failure = null;
  } catch (error) {
    failure = error.name === "TimeoutError" ? `no answer within ${TIMEOUT / 1000} s`
      : error instanceof TypeError ? "connection failed" : error.message;
    proxy = await asked;
  } finally {
    pending = false;
    showStatus();
    if (!signedOut) timer = setTimeout(refresh, INTERVAL);
  }
}

async function why(response) {
  const problem = await response.json().catch(() => ({}));
  return problem.code ? `${response.status} ${problem.code}` : `status ${response.status}`;
}

/** Shows a topology. Behind a proxy any instance answers, and its topology may be an older one. */
function receive(topology) {
  const received = topology.epoch.split("-").map(Number);
  const difference = received[0] - epoch[0] || received[1] - epoch[1];
  const now = performance.now();
  if (difference < 0 && now - receivedAt < KEEP_NEWER) return;
  showTotals(topology, showAttention(topology, proxy));
  showInstances(topology);
  showProxy(proxy, topology);
  showGrid(topology);
  showViews(topology.views);
  epoch = received;
  receivedAt = now;
  madeAt = topology.made_at;
  setText(byId("epoch"), topology.known ? topology.epoch : "none yet");
  setText(byId("asked"), topology.asked);
  showDeployment(topology);
  setText(byId("made-at"), clock(madeAt));
}

/** Which deployment this is, if it belongs to a service. */
function showDeployment({ application_id: id, service }) {
  byId("deployment").parentElement.hidden = !service;
  if (!service) return;
  const { name, current } = service;
  const role = current === id ? "is current" : `${current ?? "an unknown one"} is current`;
  setText(byId("deployment"), `${id} (of ${name}: ${role})`);
}

function showStatus() {
  const live = failure ? "lost" : signedOut || document.hidden ? "paused" : "live";
  setAttribute(byId("live"), "data-live", live);
  const paused = signedOut ? "signed out" : "paused";
  setText(byId("live-text"), { lost: "no answer", paused, live: "live, every second" }[live]);
  document.body.classList.toggle("stale", failure !== null && madeAt !== null);
  const alert = byId("alert");
  alert.hidden = failure === null;
  setText(alert, failure === null ? "" : describeFailure());
}

function describeFailure() {
  const parts = [];
  if (proxy === null) {
    parts.push(`The backend does not answer: ${failure}.`);
  } else {
    const tried = (proxy.backends ?? []).map(({ id, address }) => `${id} (${address})`);
    parts.push(`nginx runs, but no backend answers: ${failure}.`);
    if (tried.length) parts.push(`It knows ${tried.join(", ")}.`);
    else parts.push("It has not heard of any backend since it started.");
  }
  if (madeAt !== null) parts.push(`The page shows the state at ${clock(madeAt)}.`);
  return [...parts, "Retrying every second."].join(" ");
}

document.addEventListener("visibilitychange", () => {
  if (!signedOut) refresh();
});
startAppearance();
startCharts();
start();
startActions();
startGroups();
startHistory();
startDeadLetters();
startSignIn(() => {
  askPermission();
  refresh();
});
askPermission();
refresh();
