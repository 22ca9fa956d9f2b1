// Requests to the instance, with the token. The token is in memory only: it is gone when the page is
// closed or loaded again.

let token = null;

export function setToken(text) {
  token = text;
}

export function hasToken() {
  return token !== null;
}

/** As fetch. `accept`: the form of the answer, if it is not the default one. */
export function request(path, signal, accept) {
  const headers = accept === undefined ? {} : { Accept: accept };
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  return fetch(path, { cache: "no-store", headers, signal });
}

/** Sends a command with a JSON body. */
export function command(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  return fetch(path, { method: "POST", cache: "no-store", headers, body: JSON.stringify(body), signal });
}
