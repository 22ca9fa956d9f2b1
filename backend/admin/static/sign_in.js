// The form for the token. It is shown instead of the data.

import { setText } from "./dom.js";
import { hasToken, setToken } from "./requests.js";

const TOKEN = /^[A-Za-z0-9._~+/-]+=*$/u;

const byId = (id) => document.getElementById(id);

/** Calls `onToken` whenever a token was entered. */
export function startSignIn(onToken) {
  byId("sign-in").addEventListener("submit", (event) => {
    event.preventDefault();
    const field = byId("token");
    const text = field.value.trim();
    field.value = "";
    if (!TOKEN.test(text)) {
      setText(byId("refused"), "This is not a token.");
      return;
    }
    setToken(text);
    onToken();
  });
}

/** Shows the form, because of an answer with status 401 or 403. */
export async function askForToken(answer) {
  const refused = hasToken() || answer.status === 403;
  const problem = refused ? await answer.json().catch(() => ({})) : {};
  setText(byId("refused"), refused ? problem.detail ?? `status ${answer.status}` : "");
  setToken(null);
  byId("data").hidden = true;
  byId("sign-in").hidden = false;
}

export function showData() {
  byId("sign-in").hidden = true;
  byId("data").hidden = false;
}
