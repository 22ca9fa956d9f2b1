// Commands: who may send them, a question before each, and what came of it.

import { el, setText } from "./dom.js";
import { command, request } from "./requests.js";

const TIMEOUT = 10_000; // ms
const UNKNOWN = "It is not known what your token allows.";
const NOT_ADMIN = "Your token does not have the scope admin.";

const byId = (id) => document.getElementById(id);
let refusal = UNKNOWN; // why commands cannot be sent; null if they can
let asking = null; // the AbortController of the request that asks
let confirmed = null; // what the open question asks about

/** Asks the instance whether the token allows commands. */
export async function askPermission() {
  asking?.abort();
  const controller = (asking = new AbortController());
  let found = UNKNOWN;
  try {
    const signal = AbortSignal.any([controller.signal, AbortSignal.timeout(TIMEOUT)]);
    const answer = await request("admin/identity", signal);
    if (answer.ok) found = (await answer.json()).admin ? null : NOT_ADMIN;
    else if (answer.status === 401 || answer.status === 403) found = NOT_ADMIN;
  } catch {
    // no answer
  }
  if (asking !== controller) return; // it is asked for another token
  asking = null;
  refusal = found;
  for (const button of document.querySelectorAll("button.action")) allow(button);
}

/** Asks again if there was no answer. */
export function askPermissionIfUnknown() {
  if (refusal === UNKNOWN && asking === null) askPermission();
}

function allow(button) {
  button.disabled = refusal !== null;
  button.title = refusal ?? button.dataset.about;
}

/**
 * A button that sends a command, after a question. `describe()` returns the command: {path, body,
 * question, done: what to say when it was taken}.
 */
export function actionButton(text, about, describe) {
  const button = el("button", { "type": "button", "class": "action", "data-about": about }, text);
  button.addEventListener("click", () => ask(text, describe()));
  allow(button);
  return button;
}

export function startActions() {
  byId("confirm").addEventListener("close", () => {
    confirmed = null;
  });
  byId("confirm-no").addEventListener("click", () => byId("confirm").close());
  byId("confirm-yes").addEventListener("click", () => {
    const described = confirmed;
    byId("confirm").close();
    if (described !== null) send(described);
  });
}

function ask(text, described) {
  confirmed = described;
  setText(byId("confirm-question"), described.question);
  setText(byId("confirm-request"), `POST /${described.path} ${JSON.stringify(described.body)}`);
  setText(byId("confirm-yes"), text);
  byId("confirm").showModal();
  byId("confirm-no").focus();
}

async function send({ path, body, done }) {
  say("plain", `Sending: ${path} …`);
  try {
    const answer = await command(path, body, AbortSignal.timeout(TIMEOUT));
    const document = await answer.json().catch(() => ({}));
    if (answer.ok) say("good", done);
    else say("bad", `${document.code ?? `status ${answer.status}`}: ${document.detail ?? "no detail"}`);
  } catch (error) {
    const within = error.name === "TimeoutError" ? ` within ${TIMEOUT / 1000} s` : "";
    say("bad", `No answer${within}: it is not known whether the command was carried out.`);
  }
}

function say(tone, text) {
  const outcome = byId("outcome");
  outcome.hidden = false;
  outcome.dataset.tone = tone;
  setText(outcome, text);
}
