// The instances.

import { actionButton } from "./actions.js";
import { ago, atLeast, bytes, count, el, facts, reconcile, setAttribute, setText, whole } from "./dom.js";
import { assignColours, colourOf } from "./owners.js";

/** Shows the instances of a document of admin/topology.json. */
export function showInstances(topology) {
  assignColours(topology.instances.map((instance) => instance.id));
  reconcile(
    document.getElementById("instances"),
    topology.instances,
    (instance) => instance.id,
    newInstance,
    (card, instance) => showInstance(card, instance, topology),
  );
}

function newInstance(instance) {
  return el("li", { "class": "instance card", "data-owner": colourOf(instance.id) },
    el("div", { class: "name" }, el("i", { class: "swatch" }), el("h3", {}, instance.id),
      el("span", { class: "badge" })),
    el("p", { class: "where" }),
    el("dl", { class: "facts" }),
    el("p", { class: "note", hidden: "" }),
    el("p", { class: "actions" },
      actionButton("Drain", `Let others take over the partitions of ${instance.id}`, () => (
        drain(instance.id))),
      actionButton("Undrain", `Give ${instance.id} its share of the partitions again`, () => (
        undrain(instance.id)))));
}

function drain(id) {
  return {
    path: `admin/instances/${encodeURIComponent(id)}/drain`,
    body: {},
    question: `Drain ${id}? Others take over its partitions; it answers until they can. A restart `
      + "of it ends this.",
    done: `${id} is being drained: its partitions move to the others.`,
  };
}

function undrain(id) {
  return {
    path: `admin/instances/${encodeURIComponent(id)}/undrain`,
    body: {},
    question: `Undrain ${id}? It gets its share of the partitions again.`,
    done: `${id} gets its share of the partitions again.`,
  };
}

/** What the process uses; nothing of one that does not answer. */
function ofProcess(process) {
  if (!process) return [];
  return [
    ["Version", process.version],
    ["Up for", whole(process.uptime_ms)],
    ["Memory", bytes(process.memory_bytes)],
    ["Free disk", bytes(process.disk_free_bytes)],
    ["Threads", count(process.threads)],
  ];
}

/** The requests of the last minute. */
function ofRequests(requests) {
  if (!requests) return [];
  const { per_second: rate, p99_ms: p99 } = requests;
  return [
    ["Requests", `${rate < 10 ? rate.toFixed(1) : count(Math.round(rate))}/s`],
    ["p99", p99 === null ? "no requests" : `${p99 < 10 ? p99.toFixed(1) : Math.round(p99)} ms`],
  ];
}

function showInstance(card, instance, topology) {
  setAttribute(card, "data-state", instance.state);
  setText(card.querySelector(".badge"), instance.drained ? "drained" : instance.state);
  const [drainButton, undrainButton] = card.querySelectorAll(".action");
  drainButton.hidden = instance.state !== "running" || instance.drained;
  undrainButton.hidden = instance.state !== "running" || !instance.drained;
  setText(card.querySelector(".where"), `${instance.host}:${instance.port}`);
  const behind = instance.lag_unknown ? atLeast(instance.lag, count) : count(instance.lag);
  const reached = !["unreachable", "lost"].includes(instance.state);
  facts(card.querySelector(".facts"), [
    ["Partitions", count(instance.partitions)],
    ["Answerable", reached ? count(instance.answerable) : "unknown"],
    ["Lag", behind],
    ["Size (estimate)", reached ? bytes(instance.size_bytes) : "unknown"],
    ["Dead letters", reached ? count(instance.dead_letters) : "unknown"],
    ["Rebuilds", reached ? count(instance.rebuilds) : "unknown"],
    ...ofProcess(instance.process),
    ...ofRequests(instance.requests),
  ]);
  const notes = [];
  if (instance.lost_at !== null && instance.state === "lost") {
    notes.push(`Lost ${ago(topology.made_at - instance.lost_at)}.`);
  }
  if (instance.error) notes.push(`No answer: ${instance.error}.`);
  if (!instance.in_topology && instance.state !== "lost") notes.push("Not in the topology.");
  if (instance.epoch && instance.epoch !== topology.epoch) notes.push(`Epoch ${instance.epoch}.`);
  const note = card.querySelector(".note");
  setText(note, notes.join(" "));
  note.hidden = !notes.length;
}
