// What each replica has of a key, side by side.

import { el, facts } from "./dom.js";
import { indented, members } from "./json.js";
import { colourOf } from "./owners.js";
import { replicasPath } from "./queries.js";
import { request } from "./requests.js";

const TIMEOUT = 8000; // ms

/** Asks all replicas, and adds their answers to the result. */
export async function compare({ view, values }, found) {
  found.querySelector(".replicas")?.remove();
  const place = el("div", { class: "replicas" }, el("p", { role: "status" }, "Asking all replicas …"));
  found.append(place);
  try {
    const answer = await request(replicasPath(view, values.key), AbortSignal.timeout(TIMEOUT));
    const text = await answer.text();
    const document = JSON.parse(text);
    if (!answer.ok) {
      place.replaceChildren(el("p", {}, `${document.code}: ${document.detail}`));
      return;
    }
    // their digits are in the text, which is cut into the replicas again
    show(place, document, valuesIn(text, document.replicas.length));
  } catch {
    place.replaceChildren(el("p", {}, "The backend did not answer."));
  }
}

/** The value or the items of each replica as indented text; null without one. */
function valuesIn(text, number) {
  const tokens = members(text)?.replicas ?? [];
  const found = [];
  let depth = 0;
  let begin = 0;
  tokens.forEach((token, i) => {
    if (token === "{" && depth === 1) begin = i;
    if (token === "{" || token === "[") depth += 1;
    if (token === "}" || token === "]") depth -= 1;
    if (token === "}" && depth === 1) {
      const of = members(tokens.slice(begin, i + 1).join(""));
      const document = of?.document && members(of.document.join(""));
      const value = document?.value ?? document?.items;
      found.push(value ? indented(value) : null);
    }
  });
  return Array.from({ length: number }, (_, i) => found[i] ?? null);
}

function show(place, { partition, replicas }, values) {
  const contents = replicas.map((each, i) => values[i] ?? `${each.status} ${each.code ?? ""}`);
  const isRead = replicas.some(({ status }) => [200, 404, 406].includes(status));
  const isSame = isRead && contents.every((content) => content === contents[0]);
  const lines = contents.map((content) => content.split("\n"));
  const sets = lines.map((each) => new Set(each));
  const common = new Set(lines[0]?.filter((line) => sets.every((each) => each.has(line))));
  const cards = replicas.map((each, i) => {
    const list = el("dl", { class: "facts" });
    facts(list, [["Status", String(each.status)], ["Offset", each.offset ?? "unknown"],
      ["Lag", each.lag ?? "unknown"], ["Staleness", each.staleness === null ? "unknown" : `${each.staleness} ms`]]);
    const marked = lines[i].flatMap((line) => [common.has(line) ? line : el("mark", {}, line), "\n"]);
    return el("div", { "class": "replica", "data-owner": colourOf(each.id) },
      el("p", {}, el("b", { class: "owned" }, each.id), ` ${each.role}`), list,
      el("pre", { "tabindex": "0", "aria-label": `Value on ${each.id}` }, ...marked));
  });
  const said = replicas.length === 1 ? "There is one replica." : !isRead
    ? `None of the ${replicas.length} replicas of partition ${partition} can be read.` : isSame
    ? `All ${replicas.length} replicas of partition ${partition} have the same.`
    : `The replicas of partition ${partition} differ. Lines that not all of them have are marked.`;
  place.replaceChildren(
    el("p", { "class": "badge", "data-tone": isSame ? "good" : "warn", "role": "status" }, said),
    el("div", { class: "side-by-side" }, ...cards));
}
