// The numbers of one key's windows, sessions or versions, over time.

import { timeChart } from "./charts.js";
import { el } from "./dom.js";
import { numberIn, numericColumns } from "./tables.js";

const LEAST = 60; // s that a chart shows

let shown = null; // the chart; uPlot keeps each one until it is destroyed

/** A chart, with a list of the numbers that it can show if there are several; nothing without numbers. */
export function itemChart(items) {
  shown?.destroy();
  shown = null;
  const columns = numericColumns(items);
  if (!columns.length) return [];
  const sorted = [...items].sort((a, b) => timeOf(a) - timeOf(b));
  const place = el("div", { class: "charts" });
  const draw = (column) => {
    shown?.destroy();
    shown = timeChart({ title: column, colour: "--accent", least: LEAST, areBars: true });
    shown.show(sorted.map(timeOf), sorted.map((item) => numberIn(item, column)));
    place.replaceChildren(shown.figure);
  };
  draw(columns[0]);
  if (columns.length === 1) return [place];
  const list = el("select", {}, ...columns.map((column) => el("option", { value: column }, column)));
  list.addEventListener("change", () => draw(list.value));
  return [el("label", { class: "chart-of" }, "Chart of ", list), place];
}

/** s */
function timeOf({ start, valid_from: validFrom }) {
  return (start ?? validFrom) / 1000;
}
