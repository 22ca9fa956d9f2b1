// The views with their partitions.

import { bytes, count, duration, el, facts, reconcile, setAttribute, setText } from "./dom.js";
import { colourOf } from "./owners.js";
import { actionButton } from "./actions.js";
import { collapseButton, filterViews } from "./appearance.js";
import { describeEstimates, describeStats, pipelineButtons, showPipelineButtons } from "./pipelines.js";
import { answerableOf, belowOf, isBelowTarget, sumOf } from "./totals.js";

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

/** Shows the views of a document of admin/topology.json. */
export function showGrid(topology) {
  reconcile(byId("views"), topology.views, (view) => view.name, newView, showView);
  filterViews();
}

/** Marks the partition of the key that was looked up, and shows its numbers. */
export function mark(view, partition) {
  marked = partition === null ? null : { view, partition };
  if (marked) selected.set(view, partition);
  for (const section of byId("views").children) if (section.view) showView(section, section.view);
}

function newView(view) {
  const section = el("section", { "class": "view card", "aria-label": `View ${view.name}` },
    el("div", { class: "heading" },
      el("div", {}, el("h3", {}, collapseButton(view.name)),
        el("p", { class: "description" }), el("p", { class: "meta" })),
      el("p", { class: "sum" })),
    el("div", { class: "partitions", role: "group", "aria-label": `Partitions of ${view.name}` }),
    el("dl", { class: "facts pointed" }),
    el("p", { class: "actions" }, ...pipelineButtons(view.name)),
    el("details", {}, el("summary", {}, "All numbers"),
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Numbers of ${view.name}` },
        newTable())));
  section.querySelector(".collapse").setAttribute("aria-expanded", "true");
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
  setText(section.querySelector(".description"), view.description ?? "");
  setText(section.querySelector(".meta"),
    `topic ${view.topic} · ${path} · ${view.key} → ${view.value} · ${view.partitioner}`);
  setText(section.querySelector(".sum"), summary(placement, view.replicas));
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
  showPipelineButtons(section.querySelectorAll(".actions .action"), view.pipeline);
  const details = section.querySelector("details");
  details.hidden = !placement.length;
  if (details.open) showTable(section.querySelector("tbody"), view);
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

/** The numbers of the view, shown while no partition is selected. */
function describeAll({ placement, pipeline, replicas }) {
  const derived = pipeline ? [["Pipeline", pipeline.state], ["Pipeline lag", count(pipeline.lag)],
    ["Pipeline staleness", duration(pipeline.staleness)], ...describeEstimates(pipeline),
    ...describeStats(pipeline.stats)] : [];
  if (!placement.length) return derived;
  const stalenesses = placement.map((p) => p.staleness);
  return [
    ["Partitions", count(placement.length)],
    ["Owners", count(new Set(placement.map((p) => p.active).filter((id) => id !== null)).size)],
    ["Answerable", count(answerableOf(placement))],
    ["Below replica target", count(belowOf(placement, replicas))],
    ...derived,
    ["Lag", sumOf(placement, "lag", count)],
    ["Greatest staleness", stalenesses.every((ms) => typeof ms === "number")
      ? duration(Math.max(...stalenesses)) : "unknown"],
    ["Size (estimate)", sumOf(placement, "size_bytes", bytes)],
    ["Dead letters", sumOf(placement, "dead_letters", count)],
    ["Unreadable values", sumOf(placement, "unreadable_values", count)],
    ["Unreadable keys", sumOf(placement, "unreadable_keys", count)],
    ["Mispartitioned", sumOf(placement, "mis_partitioned", count)],
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
  setAttribute(tile, "data-missing", isBelowTarget(placement, view.replicas) ? "" : null);
  setAttribute(tile, "data-warned", placement.mis_partitioned || placement.dead_letters ? "" : null);
  setText(tile.querySelector(".owner"), placement.active ?? "nobody");
  setText(tile.querySelector(".standby"), placement.standby.map((id) => `+ ${id}`).join(" "));
  setText(tile.querySelector(".how"), short(placement));
  tile.querySelector("progress").value = percent(placement) ?? 0;
  const words = describe(placement, view.replicas).map(([name, text]) => `${name.toLowerCase()} ${text}`);
  setAttribute(tile, "aria-description", `Partition ${placement.partition}: ${words.join(", ")}`);
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
  for (const replica of placement.replicas.filter(({ role }) => role === "standby")) {
    pairs.push([`Standby ${replica.id}`, replica.position === null ? replica.state
      : `position ${count(replica.position)}, lag ${count(replica.lag)}`]);
  }
  pairs.push(
    ["Position", count(placement.position)],
    ["Lag", count(placement.lag)],
    ["Staleness", duration(placement.staleness)],
    ["Open transaction", placement.open_transaction ? duration(placement.open_transaction) : "none"],
    ["Size (estimate)", bytes(placement.size_bytes)],
    ["Dead letters", count(placement.dead_letters)],
    ["Unreadable values", count(placement.unreadable_values)],
    ["Unreadable keys", count(placement.unreadable_keys)],
    ["Mispartitioned", count(placement.mis_partitioned)],
  );
  for (const { id, building } of placement.replicas) {
    if (building?.length) pairs.push([`Indexes built on ${id}`, building.join(", ")]);
  }
  return pairs;
}

const COLUMNS = ["Instance", "Role", "State", "Position", "Lag", "Staleness", "Size (estimate)",
  "Dead letters", "Mispartitioned"];

function newTable() {
  return el("table", {},
    el("thead", {}, el("tr", {},
      ...["Partition", ...COLUMNS, "Actions"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody"));
}

function rebuildButton(view, partition, id) {
  return actionButton("Rebuild", `Build partition ${partition} on ${id} again`, () => ({
    path: `admin/instances/${encodeURIComponent(id)}/rebuild`,
    body: { view, partition },
    question: `Rebuild partition ${partition} of view ${view} on ${id}? Its store is deleted, and `
      + "copied from another instance or built from the topic. It is refused if no other instance "
      + "answers for the partition meanwhile.",
    done: `Partition ${partition} of view ${view} is being rebuilt on ${id}.`,
  }));
}

/** A row for each replica of each partition. */
function showTable(body, { name, placement }) {
  const none = { id: null, role: "active", state: "nobody" };
  const rows = placement.flatMap(({ partition, replicas }) => (
    (replicas.length ? replicas : [none]).map((replica) => ({ partition, ...replica }))));
  reconcile(
    body,
    rows,
    (row) => `${row.partition} ${row.role} ${row.id}`,
    ({ partition, id }) => el("tr", {}, el("th", { scope: "row" }, String(partition)),
      ...COLUMNS.map(() => el("td")),
      el("td", {}, ...(id === null ? [] : [rebuildButton(name, partition, id)]))),
    (row, { id, role, state, position, lag, staleness, size_bytes: size, dead_letters: dead,
      mis_partitioned: mispartitioned }) => {
      const texts = [id ?? "nobody", role, STATES[state] ?? state, count(position), count(lag),
        duration(staleness), bytes(size), count(dead), count(mispartitioned)];
      texts.forEach((text, i) => setText(row.children[i + 1], text));
      setAttribute(row.children[1], "data-owner", colourOf(id));
      row.children[1].className = "owned";
    },
  );
}
