// The queries of each kind of store: their fields, their paths, and the same as commands. Pure.

const SPAN = [["from", "From", "time"], ["to", "To", "time"]];
const KEYS = [["key_from", "First key", "text"], ["key_to", "Last key", "text"]];
const NUMBERS = ["", "sum", "min", "max", "avg", "count", "entries"];
const PAGE = [["order", "Order", ["", "asc", "desc"]], ["limit", "Limit", "number"]];
const KEY = [["key", "Key", "key"]];

/** By name: the text, the stores that have it, its fields, and the client's method and command. */
const QUERIES = {
  get: { text: "A key", fields: KEY, stores: ["key-value", "global", "versioned", "custom"] },
  windows: { text: "Windows of a key", fields: [...KEY, ...SPAN, ...PAGE], stores: ["window"] },
  sessions: { text: "Sessions of a key", fields: [...KEY, ...SPAN, ...PAGE], stores: ["session"] },
  versions: { text: "Versions of a key", fields: [...KEY, ...SPAN, ...PAGE], stores: ["versioned"] },
  watch: { text: "Live changes of a key", fields: KEY, stores: ["key-value", "global"] },
  scan: {
    text: "Browse keys",
    fields: [["from", "First key", "text"], ["to", "Last key", "text"], ["prefix", "Prefix", "text"],
      ...PAGE],
    stores: ["key-value", "global", "versioned"],
  },
  "all-windows": { text: "Browse windows", fields: [...KEYS, ...SPAN, ...PAGE], stores: ["window"] },
  "all-sessions": { text: "Browse sessions", fields: [...KEYS, ...SPAN, ...PAGE], stores: ["session"] },
  count: {
    text: "Count",
    fields: [["exact", "Exact", ["", "true"]]],
    stores: ["key-value", "global", "versioned", "window", "session"],
  },
  top: {
    text: "Top",
    fields: [["by", "By field", "text"], ...PAGE],
    stores: ["key-value", "global", "versioned"],
  },
  "top-keys": {
    text: "Top",
    fields: [["by", "By field", "text"], ["order_by", "Number of a key", NUMBERS], ...SPAN, ...PAGE],
    stores: ["window", "session"],
  },
  aggregate: {
    text: "Aggregate",
    fields: [["by", "Group by field", "text"], ["value", "Numbers in field", "text"],
      ["order_by", "Order by", NUMBERS], ...PAGE],
    stores: ["key-value", "global", "versioned", "window", "session"],
  },
  sql: {
    text: "SQL",
    fields: [["statement", "Statement", "statement"], ["explain", "Explain", ["", "true"]]],
    stores: ["key-value", "global", "versioned", "window", "session"],
  },
};
const AS_OF = ["as_of", "As of", "time"];

// formats whose record bytes are the typed text; the backend parses all others
const TYPED_AS_BYTES = new Set(["string", "bytes", "json"]);
const URL_SAFE = /^[A-Za-z0-9_~-][A-Za-z0-9._~-]*$/u;

/** `[name, text]` of each query of the view. */
export function queriesOf(view) {
  const store = storeOf(view);
  return Object.entries(QUERIES)
    .filter(([, query]) => query.stores.includes(store))
    .map(([name, query]) => [name, query.text]);
}

function storeOf({ store }) {
  return !store ? "key-value" : (store.includes(":") || store.includes(".")) ? "custom" : store;
}

/** `[name, label, type]` of each field of a query. */
export function fieldsOf(view, name) {
  const { fields } = QUERIES[name];
  return name === "get" && storeOf(view) === "versioned" ? [...fields, AS_OF] : fields;
}

/** The statement to begin with. */
export function statementOf(view) {
  return `select * from "${view.name}" limit 20`;
}

/** The body of a query that is sent with POST; null if it has none. `cursor`: null for the first page. */
export function bodyOf(name, values, cursor) {
  if (name !== "sql") return null;
  return {
    query: values.statement, ...(values.explain ? { explain: true } : {}),
    ...(cursor === null ? {} : { cursor }),
  };
}

/** The key in a URL, and the parameters that say how: readable if it is safe there. */
function keyInUrl(view, key) {
  if (view.key_fields || !TYPED_AS_BYTES.has(view.key)) return [encodeURIComponent(key), []];
  if (URL_SAFE.test(key)) return [key, []];
  // in base64url, no key is "." or has a slash
  const bytes = new TextEncoder().encode(key);
  const base64 = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  const base64url = base64.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/u, "");
  return [base64url, [["encoding", "base64url"]]];
}

/** The path of a key, relative to the page, and its parameters. */
function keyPath(view, key) {
  const [text, parameters] = keyInUrl(view, key);
  return [`views/${encodeURIComponent(view.name)}/keys/${text}`, parameters];
}

/** The path of what all replicas have of a key. */
export function replicasPath(view, key) {
  const [text, parameters] = keyInUrl(view, key);
  const encoding = parameters.length ? "&encoding=base64url" : "";
  return `admin/views/${encodeURIComponent(view.name)}/replicas?key=${text}${encoding}`;
}

/** The path and the parameters of a query. `values`: by field; empty ones are left out. */
export function pathOf(view, name, values) {
  if (name === "sql") return "sql";
  let [path, parameters] = values.key === undefined
    ? [`views/${encodeURIComponent(view.name)}/`, []] : keyPath(view, values.key);
  path += {
    "get": "", "windows": "/windows", "sessions": "/sessions", "versions": "/versions",
    "watch": "/changes", "scan": "keys", "all-windows": "windows", "all-sessions": "sessions",
    "count": "count", "top": "top", "top-keys": "top", "aggregate": "aggregate",
  }[name];
  for (const [field] of fieldsOf(view, name)) {
    if (field !== "key" && values[field]) parameters = [...parameters, [field, values[field]]];
  }
  const query = parameters.map(([field, text]) => `${field}=${encodeURIComponent(text)}`).join("&");
  return query ? `${path}?${query}` : path;
}

/** The query as a command of curl. `base`: the URL that paths are relative to. */
export function curlCommand(base, path, name, values, hasToken) {
  const token = hasToken ? ' -H "Authorization: Bearer $QUERYABLE_TOKEN"' : "";
  const body = bodyOf(name, values, null);
  const sent = body === null ? ""
    : ` -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(body))}`;
  return `curl${name === "watch" ? " -N" : ""}${token}${sent} ${quoted(base + path)}`;
}

const METHODS = {
  "watch": "changes", "all-windows": "windows", "all-sessions": "sessions", "top-keys": "top",
};

/** The query with the Python client. */
export function pythonScript(base, view, name, values) {
  const positional = values.key === undefined ? [] : [pythonKey(view, values.key, false)];
  const named = fieldsOf(view, name)
    .filter(([field]) => field !== "key" && values[field])
    .map(([field, , type]) => `${field === "from" ? "from_" : field}=${
      field === "exact" ? "True" : type === "number" ? values[field]
        : type !== "time" && isBound(field) ? pythonKey(view, values[field], true)
          : JSON.stringify(values[field])}`);
  const call = name === "sql" ? `client.sql(${JSON.stringify(values.statement)})` : `client.${METHODS[name] ?? name}(${
    [JSON.stringify(view.name), ...positional, ...named].join(", ")})`;
  const one = name === "get" || name === "count";
  return [
    ...(call.includes("json.loads(") ? ["import json", ""] : []),
    ...(call.includes("urlsafe_b64decode(") ? ["from base64 import urlsafe_b64decode", ""] : []),
    `from queryable import Client${call.includes("Raw(") ? ", Raw" : ""}`, "",
    `with Client(${JSON.stringify(base.replace(/\/$/u, ""))}) as client:`,
    one ? `    print(${call})` : `    for item in ${call}:\n        print(item)`,
  ].join("\n");
}

function isBound(field) {
  return ["key_from", "key_to", "from", "to", "prefix"].includes(field);
}

/** A typed key, or a bound of keys, as an expression of the type that the client takes. */
function pythonKey(view, text, isBoundOfKeys) {
  const quotedText = JSON.stringify(text);
  if (view.key_fields) return quotedText;
  switch (view.key) {
    case "int32": case "int64":
      return /^-?(?:0|[1-9]\d*)$/u.test(text) ? text : `int(${quotedText})`;
    case "float64":
      return /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/u.test(text) ? text : `float(${quotedText})`;
    case "bytes":
      return `${quotedText}.encode()`;
    case "json":  // its bytes identify a key, and bounds have no bytes
      return isBoundOfKeys ? `json.loads(${quotedText})` : `Raw(${quotedText}.encode())`;
    case "avro":
      return `json.loads(${quotedText})`;
    case "protobuf":
      return `Raw(urlsafe_b64decode(${JSON.stringify(`${text}===`)}))`;
    default:
      return quotedText;
  }
}

const COMMANDS = { "all-windows": "windows", "all-sessions": "sessions", "top-keys": "top" };

/** The query as a command of `queryable`. */
export function consoleCommand(base, view, name, values) {
  if (name === "sql") {
    return `queryable sql ${quoted(values.statement)} --url ${quoted(base.replace(/\/$/u, ""))}`;
  }
  const words = ["queryable", COMMANDS[name] ?? name];
  for (const [field] of fieldsOf(view, name)) {
    if (field === "key" || !values[field]) continue;
    words.push(`--${field.replaceAll("_", "-")}`);
    if (field !== "exact") words.push(quoted(values[field]));
  }
  words.push("--url", quoted(base.replace(/\/$/u, "")), quoted(view.name));
  if (values.key !== undefined) {
    if (values.key.startsWith("-")) words.push("--");
    words.push(quoted(values.key));
  }
  return words.join(" ");
}

/** A word for a POSIX shell. */
function quoted(text) {
  return /^[A-Za-z0-9@%+:,./_-]+$/u.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
