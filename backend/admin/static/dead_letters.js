// The newest dead letters of a view, with their reasons.

import { count, el, isoTime, setText } from "./dom.js";
import { request } from "./requests.js";

const TIMEOUT = 15_000; // ms
const LIMIT = 200;

const byId = (id) => document.getElementById(id);

export function startDeadLetters() {
  byId("letters-close").addEventListener("click", () => {
    byId("letters").hidden = true;
  });
}

/** Asks for the dead letters of a view, and shows them. */
export async function showDeadLetters(view) {
  byId("letters").hidden = false;
  setText(byId("letters-title"), `Dead letters of ${view}`);
  setText(byId("letters-said"), "Reading …");
  byId("letters-list").replaceChildren();
  byId("letters").scrollIntoView({ block: "nearest" });
  byId("letters-close").focus();
  try {
    const path = `admin/views/${encodeURIComponent(view)}/dead-letters?limit=${LIMIT}`;
    const answer = await request(path, AbortSignal.timeout(TIMEOUT));
    const document = await answer.json();
    if (answer.ok) show(document);
    else setText(byId("letters-said"), `${document.code}: ${document.detail}`);
  } catch {
    setText(byId("letters-said"), "The backend did not answer.");
  }
}

function show({ topic, stored, reasons, items }) {
  setText(byId("letters-said"), items.length
    ? `The newest ${count(items.length)} of topic ${topic}, which has ${count(stored)} offsets.`
    : `Topic ${topic} has no records.`);
  const why = reasons.map(({ reason, count: times }) => (
    el("li", {}, el("b", {}, `${count(times)} × `), reason ?? "no reason given")));
  const columns = ["Record", "Time", "Rejected by", "Reason", "Key", "Value"];
  const rows = items.map((item) => el("tr", {},
    el("th", { scope: "row" }, `${item.topic}:${item.partition}:${item.offset}`),
    ...[item.timestamp === null ? "unknown" : isoTime(item.timestamp), item.by ?? "",
      item.reason ?? "", contentOf(item.key), contentOf(item.value)].map((text) => el("td", {}, text))));
  byId("letters-list").replaceChildren(
    el("ul", {}, ...why),
    el("div", { "class": "scroll", "tabindex": "0", "role": "region", "aria-label": "Dead letters" },
      el("table", {},
        el("thead", {}, el("tr", {}, ...columns.map((name) => el("th", { scope: "col" }, name)))),
        el("tbody", {}, ...rows))),
  );
}

function contentOf(content) {
  if (content === null) return "null";
  const more = content.bytes === undefined ? "" : ` … (${count(content.bytes)} bytes)`;
  return (content.text ?? `base64 ${content.base64}`) + more;
}
