// The last hour: lines of all instances together, and the rebalances.

import { clock, count, el, reconcile, setText } from "./dom.js";
import { request } from "./requests.js";

const TIMEOUT = 5000; // ms
const INTERVAL = 10_000; // ms; the steps of the instances
const HEIGHT = 120;
const MIN_WIDTH = 200;
const CHARTS = [
  ["Lag", "records", 1, "--owner-0"],
  ["Ingest", "records/s", 2, "--owner-2"],
  ["Requests", "requests/s", 3, "--owner-3"],
  ["Errors (5xx)", "responses/s", 4, "--bad"],
  ["p99", "ms", 5, "--owner-4"],
];

const byId = (id) => document.getElementById(id);
const plots = new Map(); // title -> uPlot
let asked = -INTERVAL;
let pending = false;
let latest = null; // the document that is shown

/** Asks for the last hour, every ten seconds while the section is open. */
export async function refreshHistory() {
  const now = performance.now();
  if (!byId("history").open || pending || now - asked < INTERVAL) return;
  pending = true;
  asked = now;
  try {
    const answer = await request("admin/history", AbortSignal.timeout(TIMEOUT));
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    latest = await answer.json();
    show(latest);
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
  // the colours and sizes of canvases do not follow the page
  byId("theme").addEventListener("change", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("resize", resize);
}

function resize() {
  for (const plot of plots.values()) {
    const width = Math.max(MIN_WIDTH, plot.figure.clientWidth);
    if (width !== plot.width) plot.setSize({ width, height: HEIGHT });
  }
}

/** With the colours of the theme. */
function redraw() {
  for (const plot of plots.values()) plot.destroy();
  plots.clear();
  byId("charts").replaceChildren();
  if (latest !== null) show(latest);
}

function show({ samples, instances, rebalances, step_s: step }) {
  setText(byId("history-said"), samples.length
    ? `Of ${instances.join(", ")}, in steps of ${step} s. Lag and rates are sums; p99 is that of the slowest instance.`
    : `There is a first value after ${step} s.`);
  for (const [title, unit, index, colour] of CHARTS) {
    draw(title, unit, colour, [samples.map((sample) => sample[0]), samples.map((sample) => sample[index])]);
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

function draw(title, unit, colour, data) {
  const values = data[1].filter((value) => value !== null);
  const last = values.length ? values.at(-1) : null;
  const texts = [title, last === null ? "none" : `${Math.round(last * 100) / 100} ${unit}`,
    values.length ? `at most ${Math.round(Math.max(...values) * 100) / 100}` : ""];
  let plot = plots.get(title);
  if (!plot) {
    const figure = el("figure", { class: "chart" },
      el("figcaption", {}, el("b", {}, title), " ", el("span"), " ", el("small")));
    figure.dataset.title = title;
    byId("charts").append(figure);
    plot = new uPlot(optionsOf(figure, unit, colour), data, figure);
    plot.figure = figure;
    plots.set(title, plot);
  } else {
    plot.setData(data);
  }
  const [, value, most] = plot.figure.firstElementChild.children;
  setText(value, texts[1]);
  setText(most, texts[2]);
  plot.root.querySelector("canvas").setAttribute("role", "img");
  plot.root.querySelector("canvas").setAttribute("aria-label", texts.join(", "));
}

function optionsOf(figure, unit, colour) {
  const style = getComputedStyle(document.body);
  // a canvas knows no light-dark(): the colour of an element has been computed
  const probe = el("i");
  figure.append(probe);
  const computed = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const [line, grid, text] = [computed(colour), computed("--line"), computed("--muted")];
  probe.remove();
  const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 },
    font: `11px ${style.fontFamily}` };
  const now = Date.now() / 1000;
  return {
    width: Math.max(MIN_WIDTH, figure.clientWidth),
    height: HEIGHT,
    cursor: { drag: { x: false, y: false } },
    legend: { show: false },
    scales: {
      // ten minutes at least; with one sample, uPlot would show a day
      x: { time: true, range: ({ data: [times] }) => [
        Math.min(times[0] ?? now, (times.at(-1) ?? now) - 600), times.at(-1) ?? now] },
      y: { range: (_, min, max) => [0, max > 0 ? max * 1.1 : 1] },
    },
    axes: [
      { ...axis, values: (_, splits) => splits.map((at) => clock(at * 1000).slice(0, 5)) },
      { ...axis, size: 56 },
    ],
    series: [{}, { label: unit, stroke: line, width: 1.5, 
      // a line needs two samples
      points: { show: ({ data: [times] }) => times.length < 4, size: 5, fill: line } }],
  };
}
