// Queries of a view: the form, which the address of the page has too, and its answers.

import { reasonOf, showAnswer, showItems, showNoAnswer } from "./answers.js";
import { follow } from "./changes.js";
import { el, reconcile, setAttribute, setText } from "./dom.js";
import { bodyOf, fieldsOf, pathOf, queriesOf, statementOf } from "./queries.js";
import { command, request } from "./requests.js";
import { mark } from "./views.js";

const TIMEOUT = 15_000; // ms; queries of a whole view read every entry

const FORMATS = {
  string: "text",
  bytes: "text, encoded as UTF-8",
  int32: "a number",
  int64: "a number",
  float64: "a number",
  uuid: "8-4-4-4-12 hexadecimal digits",
  json: "the exact bytes of the document",
};
const LISTS = new Set(["windows", "sessions", "versions", "scan", "all-windows", "all-sessions", "top",
  "top-keys", "aggregate", "sql"]);

const byId = (id) => document.getElementById(id);
const views = new Map(); // by name, as in the topology
let pending = null; // the AbortController of the last query
let linked = new URLSearchParams(location.search); // what the address asks for, until it is shown

export function start() {
  byId("look-up-view").addEventListener("change", showQueries);
  byId("look-up-query").addEventListener("change", showFields);
  byId("look-up").addEventListener("submit", (event) => {
    event.preventDefault();
    const view = views.get(byId("look-up-view").value);
    if (view) run(view, byId("look-up-query").value, valuesOfForm());
  });
}

/** Lists the views; the selected one stays selected. */
export function showViews(all) {
  views.clear();
  for (const view of all) views.set(view.name, view);
  const before = byId("look-up-view").value;
  reconcile(
    byId("look-up-view"),
    all,
    (view) => view.name,
    (view) => el("option", { value: view.name }, view.name),
    (option, view) => setAttribute(option, "data-key", view.key),
  );
  if (linked !== null && views.has(linked.get("view"))) openLink();
  else if (byId("look-up-view").value !== before || !byId("look-up-query").value) showQueries();
}

/** Fills the form from the address, and sends the query. */
function openLink() {
  const asked = linked;
  linked = null;
  byId("look-up-view").value = asked.get("view");
  showQueries();
  const query = asked.get("query") ?? (asked.has("key") ? "get" : null);
  const queries = byId("look-up-query");
  if (query !== null && [...queries.options].some((option) => option.value === query)) queries.value = query;
  showFields();
  for (const [name, input] of inputs()) if (asked.has(name)) input.value = asked.get(name);
  if (query !== null) byId("look-up").requestSubmit();
}

function showQueries() {
  const view = views.get(byId("look-up-view").value);
  const list = byId("look-up-query");
  const before = list.value;
  const queries = view ? queriesOf(view) : [];
  list.replaceChildren(...queries.map(([name, text]) => el("option", { value: name }, text)));
  if (queries.some(([name]) => name === before)) list.value = before;
  showFields();
}

/** The fields of the query; fields that stay keep what was typed. */
function showFields() {
  const view = views.get(byId("look-up-view").value);
  const fields = view ? fieldsOf(view, byId("look-up-query").value) : [];
  byId("look-up-key-field").hidden = !fields.some(([name]) => name === "key");
  const format = view?.key;
  setText(byId("key-format"), format ? `${format}: ${FORMATS[format] ?? "text"}` : "");
  reconcile(
    byId("look-up-fields"),
    fields.filter(([name]) => name !== "key"),
    ([name, label, type]) => `${name} ${label}${type === "statement" ? ` ${view.name}` : ""}`,
    (field) => newField(field, view),
    () => {},
  );
}

function newField([name, label, type], view) {
  const hint = type === "time" ? "ISO 8601 with a time zone, or ms" : "";
  if (Array.isArray(type)) {
    const options = type.map((text) => el("option", { value: text }, text || "default"));
    return el("label", {}, label, el("select", { name }, ...options));
  }
  if (type === "statement") {
    const area = el("textarea", { name, "rows": "3", "spellcheck": "false", "autocapitalize": "off" });
    area.value = statementOf(view);
    return el("label", { class: "grow" }, label, area);
  }
  const input = el("input", {
    name, type: type === "number" ? "number" : "text", placeholder: hint, spellcheck: "false",
    autocapitalize: "off", ...(type === "number" ? { min: "1", max: "1000" } : {}),
  });
  return el("label", {}, label, input);
}

/** `[name, input]` of each field that is shown. */
function inputs() {
  const more = [...byId("look-up-fields").querySelectorAll("input, select, textarea")];
  const key = byId("look-up-key-field").hidden ? [] : [["key", byId("look-up-key")]];
  return [...key, ...more.map((input) => [input.name, input])];
}

function valuesOfForm() {
  return Object.fromEntries(inputs().map(([name, input]) => [name, input.value]));
}

/** Puts the query into the address, so that the page can be sent to others. */
function remember(view, query, values) {
  const filled = Object.entries(values).filter(([name, text]) => text || name === "key");
  const parameters = new URLSearchParams([["view", view.name], ["query", query], ...filled]);
  history.replaceState(null, "", `?${parameters}`);
}

async function run(view, query, values) {
  pending?.abort();
  const controller = (pending = new AbortController());
  remember(view, query, values);
  const asked = { view, query, values, path: pathOf(view, query, values), items: [] };
  if (query === "watch") {
    await follow(asked, controller.signal);
    return;
  }
  await send(asked, null, controller);
}

/**
 * Sends the query, or asks for the page at a cursor. If that fails, the items stay, and the reason is
 * returned; otherwise null.
 */
async function send(asked, cursor, controller) {
  const isNext = cursor !== null;
  const content = bodyOf(asked.query, asked.values, cursor);
  const began = performance.now();
  let answer;
  let body;
  try {
    const signal = AbortSignal.any([controller.signal, AbortSignal.timeout(TIMEOUT)]);
    answer = content === null ? await request(pathOfPage(asked.path, cursor), signal)
      : await command(asked.path, content, signal);
    body = await answer.text();
  } catch (error) {
    if (controller.signal.aborted) return null; // another query has begun
    const within = error.name === "TimeoutError" ? ` within ${TIMEOUT / 1000} s` : "";
    const reason = `The backend did not answer${within}.`;
    if (isNext) return reason;
    showNoAnswer(asked, reason);
    mark(asked.view.name, null);
    return null;
  }
  if (controller.signal.aborted) return null;
  if (isNext && !answer.ok) return reasonOf(asked, answer, body);
  const took = performance.now() - began;
  if (answer.ok && LISTS.has(asked.query) && !asked.values.explain) {
    showItems(asked, answer, body, took, (next) => send(asked, next, controller));
  } else {
    showAnswer(asked, answer, body, took);
  }
  const partition = answer.headers.get("Partition");
  mark(asked.view.name, partition === null ? null : Number(partition));
  return null;
}

function pathOfPage(path, cursor) {
  if (cursor === null) return path;
  return `${path}${path.includes("?") ? "&" : "?"}cursor=${encodeURIComponent(cursor)}`;
}
