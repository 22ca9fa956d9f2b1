// The items of an answer as a table, and as files.

import { button, el, isoTime } from "./dom.js";
import { inForms, inline, isNode, isNumber, textForm, treeForm } from "./values.js";

const TIMES = new Set(["start", "end", "valid_from", "valid_to"]);
const MAX_COLUMNS = 14;
const MAX_CELL = 300; // characters

function isObject(value) {
  return isNode(value) && !Array.isArray(value);
}

/** The columns of the items: the members, and those of values that are objects. */
function columnsOf(items) {
  const names = new Set();
  for (const item of items) {
    for (const [name, value] of Object.entries(item)) {
      if (name !== "value" || !isObject(value)) names.add(name);
      else for (const member of Object.keys(value)) names.add(`value.${member}`);
    }
  }
  const all = [...names];
  if (all.length <= MAX_COLUMNS) return all;
  return [...all.filter((name) => !name.startsWith("value.")), "value"];
}

function valueIn(item, column) {
  return column.startsWith("value.") ? item.value?.[column.slice(6)] : item[column];
}

function cellOf(item, column) {
  const of = valueIn(item, column);
  if (of === undefined) return "";
  if (TIMES.has(column) && typeof of === "number") return isoTime(of);
  return inline(of);
}

/** The columns of values that are numbers in all items that have them. */
export function numericColumns(items) {
  return columnsOf(items).filter((column) => {
    const values = items.map((item) => valueIn(item, column)).filter((value) => value !== undefined);
    return column.startsWith("value") && values.length > 0 && values.every(isNumber);
  });
}

/** The number of an item in a column; null without one. */
export function numberIn(item, column) {
  const value = valueIn(item, column);
  return isNumber(value) ? Number(value) : null;
}

/**
 * A table, and the place below it for the item whose button is pressed. `measure`: the column whose
 * numbers are bars, too; null for none.
 */
export function itemTable(items, measure = null) {
  const columns = columnsOf(items);
  const numbers = columns.includes(measure) ? items.map((item) => Number(cellOf(item, measure))) : [];
  const most = Math.max(0, ...numbers.filter(Number.isFinite));
  const bar = (i) => {
    const share = most > 0 && numbers[i] > 0 ? Math.round((1000 * numbers[i]) / most) / 10 : 0;
    return el("td", { class: "bar" }, el("progress", {
      "max": "100", "value": String(share), "aria-label": `${share} % of the greatest ${measure}`,
    }));
  };
  const place = el("div", { class: "item" });
  const shower = (item, i) => {
    const made = button("Show", () => {
      const text = JSON.stringify(item, null, 2);
      place.replaceChildren(
        el("h3", {}, `Item ${i + 1}`), inForms({ Text: () => textForm(text), Tree: () => treeForm(item) }));
    });
    made.setAttribute("aria-label", `Show item ${i + 1}`);
    return el("td", {}, made);
  };
  const rows = items.map((item, i) => el("tr", {}, ...columns.map((column) => {
    const text = cellOf(item, column);
    return el("td", {}, text.length > MAX_CELL ? `${text.slice(0, MAX_CELL)} …` : text);
  }), ...(most > 0 ? [bar(i)] : []), shower(item, i)));
  const heads = [...columns, ...(most > 0 ? [`${measure} as bars`] : []), "Item"];
  const table = el("table", {},
    el("thead", {}, el("tr", {}, ...heads.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, ...rows));
  return [
    el("div", { "class": "scroll", "tabindex": "0", "role": "region", "aria-label": "Items" }, table), place];
}

/** Comma-separated values (RFC 4180). A cell that a spreadsheet would take for a formula is text. */
export function asCsv(items) {
  const columns = columnsOf(items);
  const cell = (text) => {
    const safe = /^[=+\-@\t\r]/u.test(text) && !/^-?[0-9.]+(e[+-]?[0-9]+)?$/iu.test(text) ? `'${text}` : text;
    return /[",\r\n]/u.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const lines = [columns, ...items.map((item) => columns.map((column) => cellOf(item, column)))];
  return lines.map((line) => `${line.map(cell).join(",")}\r\n`).join("");
}

/** One JSON document a line. */
export function asNdjson(items) {
  return items.map((item) => `${JSON.stringify(item)}\n`).join("");
}

export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = el("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
