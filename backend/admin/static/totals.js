// The numbers of the whole deployment.

import { atLeast, bytes, count, el, reconcile, setAttribute, setText } from "./dom.js";

/** The number of partitions that are answerable on any instance. */
export function answerableOf(placement) {
  return placement.filter((p) => p.state === "answerable").length;
}

/** Whether fewer instances can answer for a partition than should. `replicas`: their target number. */
export function isBelowTarget(partition, replicas) {
  return partition.answered_by.length < replicas;
}

/** The number of partitions for which fewer instances can answer than should. */
export function belowOf(placement, replicas) {
  return placement.filter((p) => isBelowTarget(p, replicas)).length;
}

/** The sum of a field, with `format`; some of the numbers may be unknown. */
export function sumOf(placement, field, format) {
  const known = placement.map((p) => p[field]).filter((value) => typeof value === "number");
  const sum = known.reduce((total, value) => total + value, 0);
  return known.length === placement.length ? format(sum) : atLeast(sum, format);
}

export function showTotals(topology, findings) {
  const running = topology.instances.filter((instance) => instance.state === "running").length;
  const placements = topology.views.flatMap((view) => view.placement);
  const answerable = answerableOf(placements);
  const below = topology.views.reduce((total, view) => total + belowOf(view.placement, view.replicas), 0);
  const pipelines = topology.views.map((view) => view.pipeline).filter(Boolean);
  const derived = pipelines.filter((pipeline) => pipeline.state === "running").length;
  const isLagKnown = placements.every((p) => typeof p.lag === "number");
  const totals = [
    ["Instances running", `${running} of ${topology.instances.length}`,
      running === topology.instances.length ? "good" : "bad"],
    ["Partitions answerable", `${count(answerable)} of ${count(placements.length)}`,
      answerable === placements.length && answerable > 0 ? "good" : "warn"],
    ["Below replica target", below ? `${count(below)} of ${count(placements.length)}` : "none",
      below ? "warn" : "good"],
    ...(pipelines.length ? [["Pipelines running", `${derived} of ${pipelines.length}`,
      derived === pipelines.length ? "good" : "warn"]] : []),
    ["Records behind", sumOf(placements, "lag", count), isLagKnown ? "plain" : "warn"],
    ["Size (estimate)", sumOf(placements, "size_bytes", bytes), "plain"],
    ["Need attention", findings ? count(findings) : "nothing", findings ? "warn" : "good"],
  ];
  reconcile(
    document.getElementById("totals"),
    totals,
    ([name]) => name,
    ([name]) => el("li", {}, el("b"), el("span", {}, name)),
    (item, [, text, tone]) => {
      setText(item.firstElementChild, text);
      setAttribute(item, "data-tone", tone);
    },
  );
}
