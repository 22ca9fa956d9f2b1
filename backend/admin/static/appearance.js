// The theme, the search for views, and closed views.

import { setAttribute } from "./dom.js";

const THEME = "queryable-theme"; // in the browser's storage; the only thing that is kept there

const byId = (id) => document.getElementById(id);
const closed = new Set(); // names of views whose partitions are hidden

export function startAppearance() {
  useTheme(stored());
  byId("theme").value = stored();
  byId("theme").addEventListener("change", () => {
    const theme = byId("theme").value;
    try {
      if (theme) localStorage.setItem(THEME, theme);
      else localStorage.removeItem(THEME);
    } catch {
      // storage is off: the theme lasts until the page is closed
    }
    useTheme(theme);
  });
  byId("search").addEventListener("input", filterViews);
  byId("collapse").addEventListener("click", collapseAll);
  document.addEventListener("keydown", (event) => {
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/u.test(document.activeElement?.tagName ?? "");
    if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    byId("search").focus();
  });
}

function stored() {
  try {
    const theme = localStorage.getItem(THEME);
    return theme === "light" || theme === "dark" ? theme : "";
  } catch {
    return "";
  }
}

function useTheme(theme) {
  setAttribute(document.documentElement, "data-theme", theme || null);
}

/** Shows the views whose name or topic has the text that was typed. */
export function filterViews() {
  const text = byId("search").value.trim().toLowerCase();
  let shown = 0;
  for (const section of byId("views").children) {
    const { name, topic } = section.view;
    section.hidden = !`${name} ${topic}`.toLowerCase().includes(text);
    shown += section.hidden ? 0 : 1;
  }
  byId("no-views").hidden = shown > 0 || !text;
}

/** The button of a view that hides and shows its partitions. */
export function collapseButton(view) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "collapse";
  button.append(view);
  button.addEventListener("click", () => setClosed(button.closest(".view"), view, !closed.has(view)));
  return button;
}

function setClosed(section, view, isClosed) {
  if (isClosed) closed.add(view);
  else closed.delete(view);
  setAttribute(section, "data-closed", isClosed ? "" : null);
  setAttribute(section.querySelector(".collapse"), "aria-expanded", String(!isClosed));
}

function collapseAll() {
  const sections = [...byId("views").children];
  const isClosed = sections.some((section) => !closed.has(section.view.name));
  for (const section of sections) setClosed(section, section.view.name, isClosed);
  byId("collapse").textContent = isClosed ? "Expand all" : "Collapse all";
}
