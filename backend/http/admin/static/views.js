// The instances, and the views with their partitions.

import { bytes, count, duration, el, facts, reconcile, setAttribute, setText } from "./dom.js";
import { assignColours, colourOf } from "./owners.js";

const STATES = {
  "answerable": "answerable",
  "catching-up": "catching up",
  "opening": "opening",
  "unknown": "unknown",
  "nobody": "no owner",
};

const selected = new Map(); // view -> the partition whose numbers are shown
let marked = null; // the view and partition of the key that was looked up

const byId = (id) => document.getElementById(id);

/** Shows a document of admin/topology.json. */
export function show(topology) {
  assignColours(topology.instances.map((instance) => instance.id));
  showTotals(topology);
  showWarnings(byId("warnings"), topology.warnings);
  reconcile(
    byId("instances"),
    topology.instances,
    (instance) => instance.id,
    newInstance,
    (card, instance) => showInstance(card, instance, topology),
  );
  reconcile(byId("views"), topology.views, (view) => view.name, newView, showView);
}

/** Marks the partition of the key that was looked up, and shows its numbers. */
export function mark(view, partition) {
  marked = partition === null ? null : { view, partition };
  if (marked) selected.set(view, partition);
  for (const section of byId("views").children) if (section.view) showView(section, section.view);
}

function showTotals(topology) {
  const running = topology.instances.filter((instance) => instance.state === "running").length;
  const placements = topology.views.flatMap((view) => view.placement);
  const answerable = answerableOf(placements);
  const below = topology.views.reduce((total, view) => total + belowOf(view.placement, view.replicas), 0);
  const pipelines = topology.views.map((view) => view.pipeline).filter(Boolean);
  const derived = pipelines.filter((pipeline) => pipeline.state === "running").length;
  const sum = (field) => placements.reduce((total, p) => total + (p[field] ?? 0), 0);
  const known = placements.every((p) => p.lag !== null && p.lag !== undefined);
  const warnings = topology.views.reduce((total, view) => total + view.warnings.length,
    topology.warnings.length);
  const totals = [
    ["Instances running", `${running} of ${topology.instances.length}`,
      running === topology.instances.length ? "good" : "bad"],
    ["Partitions answerable", `${count(answerable)} of ${count(placements.length)}`,
      answerable === placements.length && answerable > 0 ? "good" : "warn"],
    ["Below replica target", below ? `${count(below)} of ${count(placements.length)}` : "none",
      below ? "warn" : "good"],
    ...(pipelines.length ? [["Pipelines running", `${derived} of ${pipelines.length}`,
      derived === pipelines.length ? "good" : "warn"]] : []),
    ["Records behind", known ? count(sum("lag")) : atLeast(sum("lag"), count),
      known ? "plain" : "warn"],
    ["Size (estimate)", known ? bytes(sum("size_bytes")) : atLeast(sum("size_bytes"), bytes), "plain"],
    ["Warnings", count(warnings), warnings ? "warn" : "plain"],
  ];
  reconcile(
    byId("totals"),
    totals,
    ([name]) => name,
    ([name]) => el("li", {}, el("b"), el("span", {}, name)),
    (item, [, text, tone]) => {
      setText(item.firstElementChild, text);
      setAttribute(item, "data-tone", tone);
    },
  );
}

function showWarnings(list, warnings) {
  reconcile(
    list,
    warnings,
    (warning) => warning.code,
    (warning) => el("li", { "data-code": warning.code }, el("b", {}, warning.code), el("span")),
    (item, warning) => setText(item.lastElementChild, warning.text),
  );
}

/** A sum with unknown summands. */
function atLeast(number, format) {
  return number ? `≥ ${format(number)}` : "unknown";
}

function newInstance(instance) {
  return el("li", { "class": "instance card", "data-owner": colourOf(instance.id) },
    el("div", { class: "name" }, el("i", { class: "swatch" }), el("h3", {}, instance.id),
      el("span", { class: "badge" })),
    el("p", { class: "where" }),
    el("dl", { class: "facts" }),
    el("p", { class: "note", hidden: "" }));
}

function showInstance(card, instance, topology) {
  setAttribute(card, "data-state", instance.state);
  setText(card.querySelector(".badge"), instance.state);
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
  ]);
  const notes = [];
  if (instance.lost_at !== null && instance.state === "lost") {
    notes.push(`Lost ${duration(Math.max(0, topology.made_at - instance.lost_at))} ago.`);
  }
  if (instance.error) notes.push(`No answer: ${instance.error}.`);
  if (!instance.in_topology && instance.state !== "lost") notes.push("Not in the topology.");
  if (instance.epoch && instance.epoch !== topology.epoch) notes.push(`Epoch ${instance.epoch}.`);
  const note = card.querySelector(".note");
  setText(note, notes.join(" "));
  note.hidden = !notes.length;
}

function newView(view) {
  const section = el("section", { "class": "view card", "aria-label": `View ${view.name}` },
    el("div", { class: "heading" },
      el("div", {}, el("h3", {}, view.name), el("p", { class: "meta" })),
      el("p", { class: "sum" })),
    el("ul", { class: "warnings" }),
    el("div", { class: "partitions", role: "group", "aria-label": `Partitions of ${view.name}` }),
    el("dl", { class: "facts pointed" }),
    el("details", {}, el("summary", {}, "All numbers"),
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Numbers of ${view.name}` },
        newTable())));
  const select = (event) => {
    const tile = event.target.closest(".partition");
    if (tile) selected.set(view.name, Number(tile.dataset.partition));
    else selected.delete(view.name);
    showView(section, section.view);
  };
  const leave = () => {
    const focused = document.activeElement?.closest(".partition");
    if (focused && section.contains(focused)) select({ target: focused });
    else select({ target: section });
  };
  const partitions = section.querySelector(".partitions");
  for (const kind of ["pointerover", "focusin", "click"]) partitions.addEventListener(kind, select);
  partitions.addEventListener("pointerleave", leave);
  partitions.addEventListener("focusout", () => select({ target: section }));
  section.querySelector("details").addEventListener("toggle", () => showView(section, section.view));
  return section;
}

function showView(section, view) {
  section.view = view;
  const { placement } = view;
  const path = view.path ? `${view.path}/{key}` : `/views/${view.name}/keys/{key}`;
  setText(section.querySelector(".meta"),
    `topic ${view.topic} · ${path} · ${view.key} → ${view.value} · ${view.partitioner}`);
  setText(section.querySelector(".sum"), summary(placement, view.replicas));
  showWarnings(section.querySelector(".warnings"), view.warnings);
  reconcile(
    section.querySelector(".partitions"),
    placement,
    (p) => p.partition,
    newPartition,
    (tile, p) => showPartition(tile, p, view),
  );
  const shown = placement[selected.get(view.name)];
  const numbers = section.querySelector(".pointed");
  facts(numbers, shown
    ? [["Partition", String(shown.partition)], ...describe(shown, view.replicas)]
    : describeAll(view));
  const details = section.querySelector("details");
  details.hidden = !placement.length;
  if (details.open) showTable(section.querySelector("tbody"), placement, view.replicas);
}

function summary(placement, replicas) {
  if (!placement.length) return "no partitions";
  const below = belowOf(placement, replicas);
  const text = `${answerableOf(placement)} of ${placement.length} answerable`
    + (below ? ` · ${below} below replica target` : "");
  const left = placement.filter((p) => p.state === "catching-up").map((p) => p.seconds_left);
  const isKnown = left.length && left.every((seconds) => seconds !== null);
  return isKnown ? `${text} · about ${Math.ceil(Math.max(...left))} s left` : text;
}

function answerableOf(placement) {
  return placement.filter((p) => p.state === "answerable").length;
}

/** The number of partitions that are answerable on too few instances. */
function belowOf(placement, replicas) {
  return placement.filter((p) => p.answered_by.length < replicas).length;
}

/** What a pipeline reports of its work; nothing if it reports none. */
function describeStats(stats) {
  const rate = (value) => `${count(Math.round(value))} records/s`;
  const shown = [
    ["input_rate", "Records that arrive", rate],
    ["processed_rate", "Records processed at most", rate],
    ["batch_ms", "Micro-batch", duration],
    ["state_rows", "Rows of state", count],
    ["state_bytes", "State in memory", bytes],
    ["watermark", "Watermark", (value) => new Date(value).toISOString()],
    ["late_rows", "Late records", count],
    ["dropped_rows", "Dropped rows", count],
    ["dead_letters", "Dead letters of the pipeline", count],
    ["restarts", "Restarts after failures", count],
  ];
  return shown.filter(([name]) => name in stats).map(([name, text, show]) => [text, show(stats[name])]);
}

/** The numbers of the view, shown while no partition is selected. */
function describeAll({ placement, pipeline, replicas }) {
  const derived = pipeline ? [["Pipeline", pipeline.state], ["Pipeline lag", count(pipeline.lag)],
    ["Pipeline staleness", duration(pipeline.staleness)], ...describeStats(pipeline.stats)] : [];
  if (!placement.length) return derived;
  const sum = (field) => placement.reduce((total, p) => total + (p[field] ?? 0), 0);
  const all = (field) => placement.every((p) => typeof p[field] === "number");
  return [
    ["Partitions", count(placement.length)],
    ["Owners", count(new Set(placement.map((p) => p.active).filter((id) => id !== null)).size)],
    ["Answerable", count(answerableOf(placement))],
    ["Below replica target", count(belowOf(placement, replicas))],
    ...derived,
    ["Lag", all("lag") ? count(sum("lag")) : atLeast(sum("lag"), count)],
    ["Greatest staleness", all("staleness")
      ? duration(Math.max(...placement.map((p) => p.staleness))) : "unknown"],
    ["Size (estimate)", bytes(sum("size_bytes"))],
    ["Dead letters", count(sum("dead_letters"))],
    ["Mispartitioned", count(sum("mis_partitioned"))],
  ];
}

function newPartition(placement) {
  return el("button", { "type": "button", "class": "partition", "data-partition": placement.partition },
    el("span", { class: "number" }, String(placement.partition)),
    el("i", { class: "dot" }),
    el("span", { class: "owner" }),
    el("span", { class: "standby" }),
    el("span", { class: "how" }),
    el("progress", { "max": "100", "aria-hidden": "true" }));
}

function showPartition(tile, placement, view) {
  setAttribute(tile, "data-owner", colourOf(placement.active));
  setAttribute(tile, "data-state", placement.state);
  setAttribute(tile.querySelector(".dot"), "data-state", placement.state);
  setAttribute(tile, "data-pointed", selected.get(view.name) === placement.partition ? "" : null);
  const isMarked = marked && marked.view === view.name && marked.partition === placement.partition;
  setAttribute(tile, "data-marked", isMarked ? "" : null);
  setAttribute(tile, "data-missing", placement.answered_by.length < view.replicas ? "" : null);
  setAttribute(tile, "data-warned", placement.mis_partitioned || placement.dead_letters ? "" : null);
  setText(tile.querySelector(".owner"), placement.active ?? "nobody");
  setText(tile.querySelector(".standby"), placement.standby.map((id) => `+ ${id}`).join(" "));
  setText(tile.querySelector(".how"), short(placement));
  tile.querySelector("progress").value = percent(placement) ?? 0;
  const words = describe(placement, view.replicas).map(([name, text]) => `${name.toLowerCase()} ${text}`);
  setAttribute(tile, "aria-label", `Partition ${placement.partition}: ${words.join(", ")}`);
}

/** How much of the log is applied, in %; at most 99 before the goal is reached. */
function percent(placement) {
  if (placement.state !== "catching-up" || !placement.goal) return null;
  return Math.min(99, Math.floor((100 * placement.position) / placement.goal));
}

function short(placement) {
  if (placement.state === "catching-up") return `${percent(placement) ?? 0} %`;
  if (placement.state === "nobody") return "no owner";
  if (placement.state !== "answerable") return placement.state;
  if (!placement.answered_by.includes(placement.active)) return `by ${placement.answered_by[0]}`;
  return placement.lag === null ? "lag unknown" : `lag ${count(placement.lag)}`;
}

function describe(placement, replicas) {
  const done = percent(placement);
  const state = STATES[placement.state] ?? placement.state;
  const pairs = [
    ["Owner", placement.active ?? "nobody"],
    ["Standby", placement.standby.join(", ") || "none"],
    ["State", done === null ? state : `${state}, ${done} %`],
    ["Answered by", `${placement.answered_by.join(", ") || "nobody"} (${placement.answered_by.length} of ${replicas})`],
  ];
  if (placement.position === undefined) return pairs;
  pairs.push(
    ["Position", count(placement.position)],
    ["Lag", count(placement.lag)],
    ["Staleness", duration(placement.staleness)],
    ["Size (estimate)", bytes(placement.size_bytes)],
    ["Dead letters", count(placement.dead_letters)],
    ["Mispartitioned", count(placement.mis_partitioned)],
  );
  return pairs;
}

const COLUMNS = ["Partition", "Owner", "Standby", "State", "Answered by", "Position", "Lag",
  "Staleness", "Size (estimate)", "Dead letters", "Mispartitioned"];

function newTable() {
  return el("table", {},
    el("thead", {}, el("tr", {}, ...COLUMNS.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody"));
}

function showTable(body, placement, replicas) {
  reconcile(
    body,
    placement,
    (p) => p.partition,
    (p) => el("tr", {}, el("th", { scope: "row" }, String(p.partition)),
      ...COLUMNS.slice(1).map(() => el("td"))),
    (row, p) => {
      const numbers = new Map(describe(p, replicas));
      COLUMNS.slice(1).forEach((name, i) => setText(row.children[i + 1], numbers.get(name) ?? "–"));
      setAttribute(row.children[1], "data-owner", colourOf(p.active));
      row.children[1].className = "owned";
    },
  );
}
