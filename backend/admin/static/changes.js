// Live changes of a key: server-sent events (https://html.spec.whatwg.org, 9.2), read with fetch,
// because EventSource sends no token.

import { show, showAnswer } from "./answers.js";
import { clock, el } from "./dom.js";
import { members } from "./json.js";
import { request } from "./requests.js";

const MAX_SHOWN = 200; // changes

/** Follows the key until the signal ends it. */
export async function follow(asked, signal) {
  const rows = el("tbody");
  const content = [el("div", { "class": "scroll", "tabindex": "0", "role": "region", "aria-label": "Changes" },
    el("table", {}, el("thead", {}, el("tr", {},
      ...["Received", "Offset", "Event", "Value"].map((name) => el("th", { scope: "col" }, name)))), rows))];
  const say = (tone, title, detail = "") => show(asked, { tone, title, detail, content });
  say("plain", "connecting");
  try {
    const answer = await request(asked.path, signal);
    if (!answer.ok) {
      showAnswer(asked, answer, await answer.text(), 0);
      return;
    }
    say("good", "following", "Each change is shown when it arrives. Another query ends this.");
    await read(answer.body, (event) => {
      rows.prepend(row(event));
      while (rows.children.length > MAX_SHOWN) rows.lastElementChild.remove();
    });
    say("warn", "ended", "The stream has ended: the partition has moved, or the instance has stopped.");
  } catch {
    if (!signal.aborted) say("bad", "no answer", "The connection has ended.");
  }
}

/** Calls `take` with each event: {id, event, data}. */
async function read(body, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const fields = {};
      for (const line of part.split("\n")) {
        const at = line.indexOf(":");
        if (at > 0) fields[line.slice(0, at)] = line.slice(at + 1).replace(/^ /u, "");
      }
      if (fields.data !== undefined) take(fields);
    }
  }
}

function row({ id, event, data }) {
  const of = members(data);
  const value = (of?.value ?? of?.unreadable)?.join("") ?? "";
  return el("tr", {}, ...[clock(Date.now()), id ?? "", event ?? "", value].map((text) => el("td", {}, text)));
}
