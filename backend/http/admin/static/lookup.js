// The look-up of a key: an ordinary point read.

import { el, facts, reconcile, setAttribute } from "./dom.js";
import { indented, members } from "./json.js";
import { colourOf } from "./owners.js";
import { request } from "./requests.js";
import { mark } from "./views.js";

const TIMEOUT = 5000; // ms
const MAX_SHOWN = 200_000; // characters of a value

const FORMATS = {
  string: "text",
  bytes: "text, encoded as UTF-8",
  int32: "a number",
  int64: "a number",
  float64: "a number",
  uuid: "8-4-4-4-12 hexadecimal digits",
  json: "the exact bytes of the document",
};
// formats whose record bytes are the typed text; the backend parses all others
const TYPED_AS_BYTES = new Set(["string", "bytes", "json"]);

const byId = (id) => document.getElementById(id);
let pending = null; // the AbortController of the last request

export function start() {
  const views = byId("look-up-view");
  views.addEventListener("change", hint);
  byId("look-up").addEventListener("submit", (event) => {
    event.preventDefault();
    const view = views.selectedOptions[0];
    if (view) lookUp(view.value, view.dataset.key, byId("look-up-key").value);
  });
}

/** Lists the views; the selected one stays selected. */
export function showViews(views) {
  reconcile(
    byId("look-up-view"),
    views,
    (view) => view.name,
    (view) => el("option", { value: view.name }, view.name),
    (option, view) => setAttribute(option, "data-key", view.key),
  );
  hint();
}

function hint() {
  const format = byId("look-up-view").selectedOptions[0]?.dataset.key;
  byId("key-format").textContent = format ? `${format}: ${FORMATS[format] ?? "text"}` : "";
}

/** The path of a key, relative to the page. In base64url, no key is "." or has a slash. */
function pathOf(view, format, key) {
  const keys = `views/${encodeURIComponent(view)}/keys/`;
  if (!TYPED_AS_BYTES.has(format)) return keys + encodeURIComponent(key);
  const bytes = new TextEncoder().encode(key);
  const base64 = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  const base64url = base64.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/u, "");
  return `${keys}${base64url}?encoding=base64url`;
}

async function lookUp(view, format, key) {
  pending?.abort();
  const controller = (pending = new AbortController());
  const path = pathOf(view, format, key);
  const began = performance.now();
  let answer;
  let body;
  try {
    const signal = AbortSignal.any([controller.signal, AbortSignal.timeout(TIMEOUT)]);
    answer = await request(path, signal);
    body = await answer.text();
  } catch (error) {
    if (controller.signal.aborted) return; // another look-up has begun
    const within = error.name === "TimeoutError" ? ` within ${TIMEOUT / 1000} s` : "";
    show({ tone: "bad", title: "no answer", detail: `The backend did not answer${within}.`, path });
    mark(view, null);
    return;
  }
  if (controller.signal.aborted) return;
  const fields = members(body);
  const partition = answer.headers.get("Partition");
  const pairs = [
    ["Partition", partition],
    ["Owner", answer.headers.get("Served-By")],
    ["Offset", answer.headers.get("Offset")],
    ["Lag", answer.headers.get("Lag")],
    ["Staleness", withUnit(answer.headers.get("Staleness"))],
    ["Pipeline state", answer.headers.get("Pipeline-State")],
    ["Pipeline lag", answer.headers.get("Pipeline-Lag")],
    ["Pipeline staleness", withUnit(answer.headers.get("Pipeline-Staleness"))],
    ["Status", String(answer.status)],
    ["Took", `${Math.round(performance.now() - began)} ms`],
  ].filter(([, text]) => text !== null);
  show({ ...outcome(answer, fields), pairs, path, owner: answer.headers.get("Served-By") });
  mark(view, partition === null ? null : Number(partition));
}

function withUnit(staleness) {
  return staleness === null || staleness === "unknown" ? staleness : `${staleness} ms`;
}

function outcome(answer, fields) {
  if (answer.ok && fields?.value) {
    const text = indented(fields.value);
    const more = text.length - MAX_SHOWN;
    return {
      tone: "good",
      title: "found",
      value: more > 0 ? `${text.slice(0, MAX_SHOWN)}\n… and ${more} more characters` : text,
    };
  }
  const member = (name) => (fields?.[name] ? JSON.parse(fields[name].join("")) : null);
  const code = member("code");
  const retry = answer.headers.get("Retry-After");
  return {
    tone: answer.status === 404 ? "plain" : answer.status === 503 ? "warn" : "bad",
    title: code === "key-not-found" ? "not found" : (code ?? `status ${answer.status}`),
    detail: [
      member("detail") ?? "The response is not from a backend.",
      retry === null ? "" : `Retry after ${retry} s.`,
    ].join(" ").trim(),
  };
}

function show({ tone, title, detail, value, pairs = [], path, owner }) {
  const list = el("dl", { class: "facts" });
  facts(list, pairs);
  const id = owner?.split(";")[0];
  if (id) {
    const at = pairs.findIndex(([name]) => name === "Owner");
    list.children[at].lastElementChild.className = "owned";
    list.children[at].lastElementChild.setAttribute("data-owner", colourOf(id));
  }
  const found = byId("found");
  found.replaceChildren(
    el("p", { class: "outcome" }, el("b", { "class": "badge", "data-tone": tone }, title),
      el("code", {}, `GET /${path}`)),
  );
  if (detail) found.append(el("p", { class: "detail" }, detail));
  found.append(list);
  if (value !== undefined) {
    found.append(el("pre", { "tabindex": "0", "aria-label": "Value" }, value));
  }
  found.hidden = false;
}
