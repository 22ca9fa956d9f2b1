// JSON as written. JSON.parse would round numbers above 2^53, which int64 views have.

const TOKEN = /"(?:[^"\\]|\\.)*"|[[\]{}:,]|[^\s"[\]{}:,]+/gsu;

/** The members of a JSON object as `{name: tokens of the value}`; null for any other text. */
export function members(text) {
  try {
    const document = JSON.parse(text);
    if (typeof document !== "object" || document === null || Array.isArray(document)) return null;
  } catch {
    return null;
  }
  const found = Object.create(null);
  let depth = 0;
  let name = null;
  let tokens = [];
  for (const [token] of text.matchAll(TOKEN)) {
    if (depth === 1 && (token === "," || token === "}")) {
      if (name !== null) found[name] = tokens;
      name = null;
      tokens = [];
    } else if (depth === 1 && token === ":") {
      name = JSON.parse(tokens[0]);
      tokens = [];
    } else if (depth > 0) {
      tokens.push(token);
    }
    if (token === "{" || token === "[") depth += 1;
    if (token === "}" || token === "]") depth -= 1;
  }
  return found;
}

/** Tokens as indented text. */
export function indented(tokens) {
  let text = "";
  let depth = 0;
  for (let i = 0; i < tokens.length; i += 1) {
    const token = tokens[i];
    const line = () => `\n${"  ".repeat(depth)}`;
    if (token === "{" || token === "[") {
      text += token;
      if (tokens[i + 1] === (token === "{" ? "}" : "]")) {
        i += 1;
        text += tokens[i];
      } else {
        depth += 1;
        text += line();
      }
    } else if (token === "}" || token === "]") {
      depth -= 1;
      text += line() + token;
    } else if (token === ",") {
      text += token + line();
    } else {
      text += token === ":" ? ": " : readable(token);
    }
  }
  return text;
}

/** A token without unnecessary escapes. */
function readable(token) {
  return token.startsWith('"') ? JSON.stringify(JSON.parse(token)) : token;
}
