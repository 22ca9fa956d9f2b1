// Elements and number formats. Keys, values and names become text nodes, never markup.

/** An element with attributes and children; text children are text nodes. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export function button(text, press) {
  const made = el("button", { type: "button" }, text);
  made.addEventListener("click", press);
  return made;
}

/** Changes the document only if the text differs, to keep focus and selections. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

const elements = new WeakMap(); // parent -> its elements by key

/**
 * Keeps one child of `parent` for each of `items`, in their order. `create(item)` makes the element
 * of a new key, and `update(element, item)` updates it.
 */
export function reconcile(parent, items, keyOf, create, update) {
  const before = elements.get(parent) ?? new Map();
  const now = new Map();
  let next = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    const element = before.get(key) ?? create(item);
    now.set(key, element);
    if (element === next) next = next.nextElementSibling;
    else parent.insertBefore(element, next);
    update(element, item);
  }
  for (const [key, element] of before) if (!now.has(key)) element.remove();
  elements.set(parent, now);
}

/** Shows `[[term, text], …]` in a <dl>. */
export function facts(list, pairs) {
  reconcile(
    list,
    pairs,
    ([term]) => term,
    ([term]) => el("div", {}, el("dt", {}, term), el("dd")),
    (group, [, text]) => setText(group.lastElementChild, text),
  );
}

const integers = new Intl.NumberFormat("en");

export function count(number) {
  return number === null || number === undefined ? "unknown" : integers.format(number);
}

export function bytes(number) {
  if (number === null || number === undefined) return "unknown";
  if (number < 1000) return `${number} B`;
  let unit = -1;
  let value = number;
  do {
    value /= 1000;
    unit += 1;
  } while (value >= 999.5 && unit < 4);
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${["kB", "MB", "GB", "TB", "PB"][unit]}`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "unknown";
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`;
  return `${(ms / 3_600_000).toFixed(1)} h`;
}

/** A time without fractions of a second. */
export function whole(ms) {
  return ms < 60_000 ? `${Math.round(Math.max(0, ms) / 1000)} s` : duration(ms);
}

export function ago(ms) {
  return `${whole(ms)} ago`;
}

/** A sum with unknown summands. */
export function atLeast(number, format) {
  return number ? `≥ ${format(number)}` : "unknown";
}

const MAX_TIME = 8.64e15; // ms, of a Date

/** ISO 8601 in UTC; the number itself if it is no time that a Date can have. */
export function isoTime(ms) {
  return Math.abs(ms) <= MAX_TIME ? new Date(ms).toISOString() : String(ms);
}

export function clock(ms) {
  return new Date(ms).toLocaleTimeString("en-GB");
}
