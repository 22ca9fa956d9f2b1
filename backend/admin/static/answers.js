// The answer to a query: its outcome, the headers, the value or the items, and what to do with it.

import { button, count, el, facts, setAttribute, setText } from "./dom.js";
import { itemChart } from "./item_chart.js";
import { indented, members } from "./json.js";
import { colourOf } from "./owners.js";
import { consoleCommand, curlCommand, pythonScript } from "./queries.js";
import { compare } from "./replicas.js";
import { hasToken, request } from "./requests.js";
import { asCsv, asNdjson, download, itemTable } from "./tables.js";
import { hexadecimal, inForms, parseExact, textForm, treeForm } from "./values.js";

const TIMEOUT = 5000; // ms
const MAX_ITEMS = 10_000; // that are kept, page after page
const OF_ONE_KEY = new Set(["windows", "sessions", "versions"]);

const byId = (id) => document.getElementById(id);

export function showNoAnswer(asked, detail) {
  show(asked, { tone: "bad", title: "no answer", detail });
}

/** An answer that is not a list: a value, a count or a problem. */
export function showAnswer(asked, answer, body, took) {
  const fields = members(body);
  show(asked, {
    ...outcome(asked, answer, body, fields),
    pairs: pairsOf(answer, took),
    owner: answer.headers.get("Served-By"),
    buttons: asked.query === "get" && [200, 404, 406].includes(answer.status) ? [compareButton(asked)] : [],
  });
}

/** Why an answer has no items, in a sentence. */
export function reasonOf(asked, answer, body) {
  const { title, detail } = outcome(asked, answer, body, members(body));
  return `${title}: ${detail}`;
}

/**
 * A page of items, after those of the pages before. `more(cursor)` asks for the next one, and
 * returns a promise of the reason if there is none.
 */
export function showItems(asked, answer, body, took, more) {
  const { items, next, unreadable } = parseExact(body);
  asked.items.push(...items);
  const isFull = asked.items.length >= MAX_ITEMS;
  const chart = OF_ONE_KEY.has(asked.query) ? itemChart(asked.items) : [];
  const content = asked.items.length
    ? [...chart, ...itemTable(asked.items, measureOf(asked))] : [el("p", {}, "There are none.")];
  const buttons = asked.items.length ? [
    button("Download CSV", () => download(`${asked.view.name}.csv`, "text/csv", asCsv(asked.items))),
    button("Download NDJSON", () => (
      download(`${asked.view.name}.ndjson`, "application/x-ndjson", asNdjson(asked.items)))),
  ] : [];
  if (OF_ONE_KEY.has(asked.query)) buttons.push(compareButton(asked));
  if (next && !isFull) buttons.unshift(nextButton(() => more(next)));
  show(asked, {
    tone: "good",
    title: `${count(asked.items.length)} item${asked.items.length === 1 ? "" : "s"}`,
    detail: [
      next ? (isFull ? `The page keeps ${count(MAX_ITEMS)} items at most.` : "There are more.") : "",
      unreadable ? unreadableText(unreadable) : "",
    ].filter(Boolean).join(" "),
    pairs: pairsOf(answer, took),
    owner: answer.headers.get("Served-By"),
    content,
    buttons,
  });
}

/** Asks for the next page, once at a time. Without an answer, it can be asked for again. */
function nextButton(more) {
  let pending = false;
  return button("Next page", async () => {
    if (pending) return;
    pending = true;
    const reason = await more();
    pending = false;
    const detail = byId("found").querySelector(".detail");
    if (reason === null || detail === null) return;
    setAttribute(detail, "role", "alert");
    setText(detail, `The next page is missing. ${reason}`);
  });
}

/** Asks all replicas of the key's partition. */
function compareButton(asked) {
  return button("Compare replicas", () => compare(asked, byId("found")));
}

/** The numbers that a ranking or an aggregate is about. */
function measureOf({ query, values, items }) {
  if (query === "top") return values.by ? `value.${values.by}` : "value";
  if (query === "top-keys") return "value";
  if (query !== "aggregate") return null;
  return items.some((item) => item.sum !== undefined && item.sum !== null) ? "sum" : "entries";
}

function pairsOf(answer, took) {
  return [
    ["Partition", answer.headers.get("Partition")],
    ["Owner", answer.headers.get("Served-By")],
    ["Offset", answer.headers.get("Offset")],
    ["Plan", answer.headers.get("Plan")],
    ["Examined", answer.headers.get("Examined")],
    ["Lag", answer.headers.get("Lag")],
    ["Staleness", withUnit(answer.headers.get("Staleness"))],
    ["Pipeline state", answer.headers.get("Pipeline-State")],
    ["Pipeline lag", answer.headers.get("Pipeline-Lag")],
    ["Pipeline staleness", withUnit(answer.headers.get("Pipeline-Staleness"))],
    ["Status", String(answer.status)],
    ["Took", `${Math.round(took)} ms`],
  ].filter(([, text]) => text !== null);
}

function withUnit(staleness) {
  return staleness === null || staleness === "unknown" ? staleness : `${staleness} ms`;
}

function outcome(asked, answer, body, fields) {
  if (answer.ok && fields?.value) {
    return { tone: "good", title: "found", content: [valueOf(asked, fields.value)] };
  }
  if (answer.ok && fields?.count) {
    const isExact = fields.exact?.join("") === "true";
    return {
      tone: "good",
      title: `${isExact ? "" : "about "}${fields.count.join("")}`,
      detail: !isExact ? "This is an estimate of RocksDB, which can be far too high."
        : fields.unreadable ? unreadableText(fields.unreadable.join("")) : "",
    };
  }
  if (answer.ok && fields?.plan) {
    const text = (name) => JSON.parse(fields[name].join(""));
    return {
      tone: "good",
      title: text("plan"),
      detail: `About ${count(text("entries"))} entries in ${count(text("partitions"))} partitions${
        text("filter") === null ? "" : `, compared with ${text("filter")}`}.`,
    };
  }
  const member = (name) => (fields?.[name] ? JSON.parse(fields[name].join("")) : null);
  const code = member("code");
  if (code === "value-unreadable") {
    const content = [inForms({ Hex: () => bytesOf(asked) })];
    return { tone: "bad", title: "unreadable", detail: member("detail"), content };
  }
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

function unreadableText(number) {
  return `Values that are not in the view's format, and cannot be read: ${number}.`;
}

/** The value as text, as a tree, and in hexadecimal digits, which are asked for. */
function valueOf(asked, tokens) {
  return inForms({
    Text: () => textForm(indented(tokens)),
    Tree: () => treeForm(parseExact(tokens.join(""))),
    Hex: () => bytesOf(asked),
  });
}

async function bytesOf({ path }) {
  try {
    const answer = await request(path, AbortSignal.timeout(TIMEOUT), "application/octet-stream");
    const text = answer.ok ? hexadecimal(new Uint8Array(await answer.arrayBuffer()))
      : `status ${answer.status}: the value has no bytes of its own.`;
    return textForm(text);
  } catch {
    return el("p", {}, "The backend did not answer.");
  }
}

/** Buttons that show the query as a command, and copy it. */
function copyButtons({ view, query, values, path }) {
  const base = new URL(".", location.href).href;
  const shown = el("code", { "class": "command", "tabindex": "0", "hidden": "" });
  const forms = {
    "Copy curl": () => curlCommand(base, path, query, values, hasToken()),
    "Copy Python": () => pythonScript(base, view, query, values),
    "Copy console": () => consoleCommand(base, view, query, values),
    "Copy link": () => location.href,
  };
  const buttons = Object.entries(forms).map(([text, make]) => button(text, () => {
    shown.textContent = make();
    shown.hidden = false;
    // only in a secure context; otherwise the text can be selected
    navigator.clipboard?.writeText(shown.textContent).catch(() => {});
  }));
  return [buttons, shown];
}

/** Shows the result of a query. */
export function show(asked, { tone, title, detail, content = [], buttons = [], pairs = [], owner }) {
  const list = el("dl", { class: "facts" });
  facts(list, pairs);
  const id = owner?.split(";")[0];
  if (id) {
    const at = pairs.findIndex(([name]) => name === "Owner");
    list.children[at].lastElementChild.className = "owned";
    list.children[at].lastElementChild.setAttribute("data-owner", colourOf(id));
  }
  const found = byId("found");
  const [copies, command] = copyButtons(asked);
  found.replaceChildren(
    el("p", { class: "outcome" }, el("b", { "class": "badge", "data-tone": tone }, title),
      el("code", {}, `${asked.query === "sql" ? "POST" : "GET"} /${asked.path}`)),
    ...(detail ? [el("p", { class: "detail" }, detail)] : []),
    list,
    ...content,
    el("p", { class: "actions" }, ...buttons, ...copies),
    command,
  );
  found.hidden = false;
}
