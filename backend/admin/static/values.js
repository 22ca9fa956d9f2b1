// A value as a tree, as text and in hexadecimal digits.

import { button, el } from "./dom.js";

const MAX_SHOWN = 200_000; // characters of a text
const MAX_CHILDREN = 500; // of one node, that are shown
const MAX_BYTES = 65_536; // that are shown in hexadecimal digits

/** A number as it was written, if JavaScript would round it. */
class Exact {
  constructor(text) {
    this.text = text;
  }

  toString() {
    return this.text;
  }

  toJSON() {
    return JSON.rawJSON ? JSON.rawJSON(this.text) : this.text;
  }
}

/** As JSON.parse, but numbers keep their digits, in browsers that tell the source of a number. */
export function parseExact(text) {
  return JSON.parse(text, (_, value, context) => (
    typeof value === "number" && context?.source !== undefined && String(value) !== context.source
      ? new Exact(context.source) : value));
}

/** Whether the value has members or items. */
export function isNode(value) {
  return typeof value === "object" && value !== null && !(value instanceof Exact);
}

export function isNumber(value) {
  return typeof value === "number" || value instanceof Exact;
}

/** The value on one line. */
export function inline(value) {
  if (typeof value === "string") return value;
  return value instanceof Exact ? value.text : JSON.stringify(value);
}

/**
 * A value in one of several forms, and the buttons that choose it. `forms`: name -> a function that
 * makes the element, or a promise of it. The first is shown at first, and is no promise.
 */
export function inForms(forms) {
  const place = el("div", { class: "value" });
  const tabs = Object.entries(forms).map(([name, make]) => {
    const tab = button(name, async () => {
      press(tab);
      place.replaceChildren(await make());
    });
    return tab;
  });
  const press = (pressed) => {
    for (const each of tabs) each.setAttribute("aria-pressed", String(each === pressed));
  };
  press(tabs[0]);
  place.append(Object.values(forms)[0]());
  return el("div", {}, el("p", { "class": "actions", "role": "group", "aria-label": "Form of the value" },
    ...tabs), place);
}

export function textForm(text) {
  const more = text.length - MAX_SHOWN;
  const shown = more > 0 ? `${text.slice(0, MAX_SHOWN)}\n… and ${more} more characters` : text;
  return el("pre", { "tabindex": "0", "aria-label": "Value" }, shown);
}

export function treeForm(value) {
  return el("div", { "class": "tree", "aria-label": "Value" }, tree(value));
}

/** A tree: objects and arrays can be closed. */
function tree(value, name = null) {
  const label = name === null ? [] : [el("span", { class: "name" }, `${name}: `)];
  if (!isNode(value)) {
    const kind = value === null ? "null" : value instanceof Exact ? "number" : typeof value;
    const text = typeof value === "string" ? JSON.stringify(value) : inline(value);
    return el("div", { class: "leaf" }, ...label, el("span", { "data-kind": kind }, text));
  }
  const isArray = Array.isArray(value);
  const entries = Object.entries(value);
  const size = `${entries.length} ${isArray ? "item" : "member"}${entries.length === 1 ? "" : "s"}`;
  const children = entries.slice(0, MAX_CHILDREN).map(([key, each]) => tree(each, key));
  if (entries.length > MAX_CHILDREN) {
    children.push(el("div", { class: "leaf" }, `… and ${entries.length - MAX_CHILDREN} more`));
  }
  return el("details", { class: "node", open: "" },
    el("summary", {}, ...label, el("small", {}, `${isArray ? "[ ]" : "{ }"} ${size}`)), ...children);
}

/** Bytes, sixteen on a line: the offset, the digits, and printable ASCII. */
export function hexadecimal(bytes) {
  const lines = [];
  for (let at = 0; at < Math.min(bytes.length, MAX_BYTES); at += 16) {
    const row = Array.from(bytes.subarray(at, Math.min(at + 16, MAX_BYTES)));
    const digits = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const text = row.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${digits.padEnd(47)}  ${text}`);
  }
  if (bytes.length > MAX_BYTES) lines.push(`… and ${bytes.length - MAX_BYTES} more bytes`);
  return lines.join("\n") || "no bytes";
}
