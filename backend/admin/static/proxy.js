// nginx, if the page came through it: what each of its workers knows.

import { clock, count, el, facts, reconcile, setAttribute, setText, whole } from "./dom.js";
import { request } from "./requests.js";

const TIMEOUT = 3000; // ms
const TOLERATED = 3000; // ms for which a worker may have an older topology

const olderSince = new Map(); // pid of a worker -> since when its topology is older, ms

let isThere = true; // whether nginx has answered; a backend has no such path

/** The document of /proxy/health; null without nginx, or if it does not answer. */
export async function askProxy() {
  if (!isThere) return null;
  try {
    const answer = await request("proxy/health", AbortSignal.timeout(TIMEOUT));
    const isJson = answer.headers.get("Content-Type") === "application/json";
    const document = isJson ? await answer.json() : null;
    if (Array.isArray(document?.workers)) return document;
    isThere = answer.status !== 404;
  } catch {
    // the next request may be answered
  }
  return null;
}

/** A sentence for each worker whose topology is older than that of the backends, or unconfirmed. */
export function oldMaps({ workers, refresh_s: refresh }, topology) {
  const old = [];
  for (const { pid, epoch, age_s: age } of workers) {
    const isOlder = topology?.known && isOlderEpoch(epoch, topology.epoch);
    if (!isOlder) olderSince.delete(pid);
    else if (!olderSince.has(pid)) olderSince.set(pid, performance.now());
    const since = isOlder ? performance.now() - olderSince.get(pid) : 0;
    if (since >= TOLERATED) {
      old.push(`worker ${pid} has ${epoch ?? "none"}`);
    } else if (topology !== null && age !== null && age > 3 * refresh + TOLERATED / 1000) {
      old.push(`worker ${pid} has not read it for ${whole(age * 1000)}`);
    }
  }
  return old;
}

function isOlderEpoch(a, b) {
  if (a === null) return true;
  const [one, other] = [a, b].map((epoch) => epoch.split("-").map(Number));
  return (one[0] - other[0] || one[1] - other[1]) < 0;
}

/** Shows the workers of nginx, and what they know of the backends; null: without nginx. */
export function showProxy(proxy, topology) {
  const section = document.getElementById("proxy");
  section.hidden = proxy === null;
  if (proxy === null) return;
  const leftOut = (proxy.backends ?? []).filter((backend) => backend.left_out);
  facts(section.querySelector(".facts"), [
    ["Workers", count(proxy.workers.length)],
    ["Asks for the topology", `every ${proxy.refresh_s} s`],
    ["Retries left", `${count(Math.floor(proxy.retries.tokens))} (worker ${proxy.pid})`],
    ["Retries denied", `${count(proxy.retries.denied)} (worker ${proxy.pid})`],
    ["Tried last", leftOut.map(({ id, left_out: { failures, until } }) => (
      `${id} after ${count(failures)} failures, until ${clock(until)}`)).join(", ") || "none"],
    ["Cannot be asked", Object.entries(proxy.failures ?? {}).map(([address, error]) => (
      `${address}: ${error}`)).join(", ") || "none"],
  ]);
  reconcile(
    section.querySelector("tbody"),
    proxy.workers,
    (worker) => worker.pid,
    (worker) => el("tr", {}, el("th", { scope: "row" }, `worker ${worker.pid}`), el("td"), el("td")),
    (row, { epoch, age_s: age }) => {
      const isOld = topology?.known && isOlderEpoch(epoch, topology.epoch);
      setText(row.children[1], `${epoch ?? "none"}${isOld ? " (older than the backends')" : ""}`);
      setAttribute(row.children[1], "data-tone", isOld ? "warn" : null);
      setText(row.children[2], age === null ? "never" : `${whole(age * 1000)} ago`);
    },
  );
}
