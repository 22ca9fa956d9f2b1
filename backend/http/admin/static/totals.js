// The numbers of the whole deployment.

import { atLeast, bytes, count, el, reconcile, setAttribute, setText } from "./dom.js";

/** The number of partitions that are answerable on any instance. */
export function answerableOf(placement) {
  return placement.filter((p) => p.state === "answerable").length;
}

/** The number of partitions that are answerable on too few instances. */
export function belowOf(placement, replicas) {
  return placement.filter((p) => p.answered_by.length < replicas).length;
}

export function showTotals(topology, findings) {
  const running = topology.instances.filter((instance) => instance.state === "running").length;
  const placements = topology.views.flatMap((view) => view.placement);
  const answerable = answerableOf(placements);
  const below = topology.views.reduce((total, view) => total + belowOf(view.placement, view.replicas), 0);
  const pipelines = topology.views.map((view) => view.pipeline).filter(Boolean);
  const derived = pipelines.filter((pipeline) => pipeline.state === "running").length;
  const sum = (field) => placements.reduce((total, p) => total + (p[field] ?? 0), 0);
  const all = (field) => placements.every((p) => typeof p[field] === "number");
  const totals = [
    ["Instances running", `${running} of ${topology.instances.length}`,
      running === topology.instances.length ? "good" : "bad"],
    ["Partitions answerable", `${count(answerable)} of ${count(placements.length)}`,
      answerable === placements.length && answerable > 0 ? "good" : "warn"],
    ["Below replica target", below ? `${count(below)} of ${count(placements.length)}` : "none",
      below ? "warn" : "good"],
    ...(pipelines.length ? [["Pipelines running", `${derived} of ${pipelines.length}`,
      derived === pipelines.length ? "good" : "warn"]] : []),
    ["Records behind", all("lag") ? count(sum("lag")) : atLeast(sum("lag"), count),
      all("lag") ? "plain" : "warn"],
    ["Size (estimate)", all("size_bytes") ? bytes(sum("size_bytes"))
      : atLeast(sum("size_bytes"), bytes), "plain"],
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
