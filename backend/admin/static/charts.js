// Charts over time, drawn by uPlot.

import { el, isoTime, setText } from "./dom.js";

const HEIGHT = 120; // px
const MIN_WIDTH = 200;

const charts = new WeakMap(); // figure -> its chart

// a figure has its width only when all others of its row are on the page
const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) charts.get(target).fit();
});

/**
 * A chart of numbers over time: its `figure`, which is drawn when it is on the page,
 * `show(times, values)`, and `destroy()`. Times are in s, ascending, and a value may be null.
 *
 * `colour`: a variable of the style. `least`: the shortest time that is shown, in s. `areBars`:
 * whether each value is a bar, from its time on. `labels(times)`: those of the axis.
 */
export function timeChart({ title, unit = "", colour, least, areBars = false, labels = utc }) {
  const figure = el("figure", { class: "chart" },
    el("figcaption", {}, el("b", {}, title), " ", el("span"), " ", el("small")));
  figure.dataset.title = title;
  let plot = null;
  let data = null;
  let texts = [];

  function draw() {
    plot?.destroy();
    plot = new uPlot(optionsOf(figure, { unit, colour, least, areBars, labels }), data, figure);
    describe();
  }

  function describe() {
    const canvas = plot.root.querySelector("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", [title, ...texts].join(", "));
  }

  function fit() {
    const width = widthOf(figure);
    if (!plot) draw();
    else if (width !== plot.width) plot.setSize({ width, height: HEIGHT });
  }

  function show(times, values) {
    data = [times, values];
    const known = values.filter((value) => value !== null);
    texts = known.length
      ? [`${rounded(known.at(-1))} ${unit}`.trim(), `at most ${rounded(Math.max(...known))}`]
      : ["none", ""];
    const [, last, most] = figure.firstElementChild.children;
    setText(last, texts[0]);
    setText(most, texts[1]);
    if (plot) {
      plot.setData(data);
      describe();
    } else {
      sizes.observe(figure);
    }
  }

  /** It is not shown again. */
  function destroy() {
    sizes.unobserve(figure);
    plot?.destroy();
    plot = null;
  }

  charts.set(figure, { fit, redraw: () => plot && draw() });
  return { figure, show, destroy };
}

/** Draws all charts again if the theme changes: the colours of canvases do not follow the page. */
export function startCharts() {
  const redraw = () => {
    for (const figure of document.querySelectorAll(".chart")) charts.get(figure).redraw();
  };
  document.getElementById("theme").addEventListener("change", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

/** The time of day in UTC; at midnight, the month and the day. */
function utc(times) {
  return times.map((at) => {
    const text = isoTime(at * 1000);
    return at % 86_400 === 0 ? text.slice(5, 10) : text.slice(11, at % 60 === 0 ? 16 : 19);
  });
}

function rounded(value) {
  return Math.round(value * 100) / 100;
}

function widthOf(figure) {
  return Math.max(MIN_WIDTH, figure.clientWidth);
}

function optionsOf(figure, { unit, colour, least, areBars, labels }) {
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
    width: widthOf(figure),
    height: HEIGHT,
    tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
    cursor: { drag: { x: false, y: false } },
    legend: { show: false },
    scales: {
      // with one value, uPlot would show a day
      x: { time: true, range: ({ data: [times] }) => {
        const end = times.at(-1) ?? now;
        // a bar begins at its time
        const width = areBars ? (times.at(-1) - times.at(-2) || least) : 0;
        return [Math.min(times[0] ?? now, end - (areBars ? 0 : least)), end + width];
      } },
      y: { range: (_, min, max) => [Math.min(0, min * 1.1), max > 0 ? max * 1.1 : min < 0 ? 0 : 1] },
    },
    axes: [
      { ...axis, values: (_, times) => labels(times) },
      { ...axis, size: 56 },
    ],
    series: [{}, areBars
      ? { label: unit, stroke: line, fill: line, paths: uPlot.paths.bars({ size: [0.7, 60], align: 1 }),
        points: { show: false } }
      // a line needs two samples
      : { label: unit, stroke: line, width: 1.5,
        points: { show: ({ data: [times] }) => times.length < 4, size: 5, fill: line } }],
  };
}
