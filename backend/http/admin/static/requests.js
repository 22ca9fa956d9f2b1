// Requests to the instance, with the token. The token is in memory only: it is gone when the page is
// closed or loaded again.

let token = null;

export function setToken(text) {
  token = text;
}

export function hasToken() {
  return token !== null;
}

/** As fetch. */
export function request(path, signal) {
  const headers = token === null ? {} : { Authorization: `Bearer ${token}` };
  return fetch(path, { cache: "no-store", headers, signal });
}
