// Kernels ticked for a comparison: kept in this tab over pages, four at most; c ticks what the page is about.
// Ticks are checkboxes or links with data-tick="search.node", in the list of searches the best of each; without scripts
// they are a form and plain links.

import { followed, keysAreOn, typing } from "./keys.js";
import { gettext, interpolate } from "./texts.js";

const KEY = "adaexplore-ticked";
const MOST = 4;

export function ticked() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEY) || "[]");
    return Array.isArray(kept) ? kept.filter((key) => /^\d+\.\d+$/.test(key)).slice(0, MOST) : [];
  } catch {
    return [];
  }
}

function keep(keys) {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(keys));
  } catch {
    // not remembered over pages
  }
  show();
}

// False when there is no room for one more.
export function toggle(key) {
  const keys = ticked();
  if (keys.includes(key)) keep(keys.filter((one) => one !== key));
  else if (keys.length < MOST) keep([...keys, key]);
  else {
    say(gettext("Four kernels are already ticked. Remove one first."));
    show();
    return false;
  }
  return true;
}

function say(text) {
  const announcer = document.getElementById("announcer");
  if (announcer) announcer.textContent = text;
}

// Checkboxes, links and the tray say what is ticked.
export function show() {
  const keys = ticked();
  for (const part of document.querySelectorAll("[data-tick]")) {
    const on = keys.includes(part.dataset.tick);
    if (part.type === "checkbox") part.checked = on;
    else {
      part.setAttribute("role", "button");
      part.setAttribute("aria-pressed", String(on));
      part.textContent = on ? gettext("Ticked") : gettext("Tick to compare");
    }
  }
  document.body.classList.toggle("has-ticks", keys.length > 0);
  tray(keys);
}

function tray(keys) {
  let bar = document.getElementById("ticked");
  if (!keys.length) {
    if (bar?.contains(document.activeElement)) document.getElementById("main")?.focus({ preventScroll: true });
    bar?.remove();
    return;
  }
  if (!bar) {
    bar = document.createElement("section");
    bar.id = "ticked";
    bar.className = "ticked";
    bar.setAttribute("aria-label", gettext("Ticked for comparison"));
    document.body.append(bar);
  }
  const inside = bar.contains(document.activeElement);
  const list = document.createElement("ul");
  for (const key of keys) list.append(entry(key));
  const compare = document.createElement("a");
  compare.className = "button button-primary";
  compare.id = "compare-ticked";
  compare.href = `/compare?k=${keys.join(",")}`;
  compare.textContent = keys.length > 1 ? interpolate(gettext("Compare %(count)s"), { count: keys.length }) : gettext("Tick one more");
  const clear = document.createElement("button");
  clear.type = "button";
  clear.className = "tool";
  clear.textContent = gettext("Clear");
  clear.addEventListener("click", () => keep([]));
  bar.replaceChildren(list, compare, clear);
  if (inside) compare.focus({ preventScroll: true });
}

function entry(key) {
  const [run, node] = key.split(".");
  const item = document.createElement("li");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "tool";
  button.textContent = `#${run}.${node} ×`;
  button.title = interpolate(gettext("Remove node %(node)s of search %(run)s"), { node, run });
  button.addEventListener("click", () => toggle(key));
  item.append(button);
  return item;
}

document.addEventListener("change", (event) => {
  if (event.target.matches("input[data-tick]")) toggle(event.target.dataset.tick);
});
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-tick]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  toggle(link.dataset.tick);
});
document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector("dialog[open]") || typing(event.target) || !keysAreOn() || followed(event)) return;
  if (event.key === " " && event.target.matches?.("a[data-tick]")) {
    event.preventDefault(); // it says that it is a button
    toggle(event.target.dataset.tick);
  } else if (event.key === "c") tickHere(event);
  else if (event.key === "C") document.getElementById("compare-ticked")?.click();
});

// The row that has the focus, else the node that is open, else the first of the page.
function tickHere(event) {
  const row = event.target instanceof Element ? event.target.closest("tr") : null;
  const part = row?.querySelector("[data-tick]") || document.querySelector("a[data-tick]");
  if (!part) return;
  event.preventDefault();
  toggle(part.dataset.tick);
}

document.addEventListener("htmx:afterSwap", show);
window.addEventListener("pageshow", show);
show();
