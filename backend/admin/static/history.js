// The last hour: lines of all instances together, and the rebalances.

import { timeChart } from "./charts.js";
import { clock, count, el, reconcile, setText } from "./dom.js";
import { request } from "./requests.js";

const TIMEOUT = 5000; // ms
const INTERVAL = 10_000; // ms; the steps of the instances
const LEAST = 600; // s that a chart shows
const CHARTS = [
  ["Lag", "records", 1, "--owner-0"],
  ["Ingest", "records/s", 2, "--owner-2"],
  ["Requests", "requests/s", 3, "--owner-3"],
  ["Errors (5xx)", "responses/s", 4, "--bad"],
  ["p99", "ms", 5, "--owner-4"],
];

const byId = (id) => document.getElementById(id);
const charts = new Map(); // by title
let asked = -INTERVAL;
let pending = false;

/** Asks for the last hour, every ten seconds while the section is open. */
export async function refreshHistory() {
  const now = performance.now();
  if (!byId("history").open || pending || now - asked < INTERVAL) return;
  pending = true;
  asked = now;
  try {
    const answer = await request("admin/history", AbortSignal.timeout(TIMEOUT));
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    show(await answer.json());
  } catch {
    setText(byId("history-said"), "The history is not known: no instance has answered.");
  } finally {
    pending = false;
  }
}

export function startHistory() {
  byId("history").addEventListener("toggle", () => {
    asked = -INTERVAL;
    refreshHistory();
  });
}

function show({ samples, instances, rebalances, step_s: step }) {
  setText(byId("history-said"), samples.length
    ? `Of ${instances.join(", ")}, in steps of ${step} s. Lag and rates are sums; p99 is that of the slowest instance.`
    : `There is a first value after ${step} s.`);
  if (!charts.size) {
    for (const [title, unit, , colour] of CHARTS) {
      charts.set(title, timeChart({ title, unit, colour, least: LEAST, labels: minutes }));
    }
    byId("charts").append(...[...charts.values()].map((chart) => chart.figure));
  }
  const times = samples.map((sample) => sample[0]);
  for (const [title, , index] of CHARTS) {
    charts.get(title).show(times, samples.map((sample) => sample[index]));
  }
  byId("rebalances").hidden = !rebalances.length;
  reconcile(
    byId("rebalances").querySelector("tbody"),
    rebalances,
    (each) => each.epoch,
    () => el("tr", {}, el("th", { scope: "row" }), ...Array.from({ length: 5 }, () => el("td"))),
    (row, { at, epoch, joined, left, moved, seconds }) => {
      const what = Object.entries(moved).map(([view, number]) => `${view}: ${count(number)}`);
      const texts = [clock(at), epoch, joined.join(", ") || "nobody", left.join(", ") || "nobody",
        what.join(", ") || "nothing", `${seconds.toFixed(2)} s`];
      texts.forEach((text, i) => setText(row.children[i], text));
    },
  );
}

function minutes(times) {
  return times.map((at) => clock(at * 1000).slice(0, 5));
}
