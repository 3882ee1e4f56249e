// Keys that work on every page, the help dialog, menus that close, and focus after errors.

import { commands, perform } from "./acts.js";
import { KEYS_OFF, keysAreOn, typing } from "./keys.js";
import { openPalette } from "./palette.js";
import { gettext, interpolate } from "./texts.js";
import { undoNewest } from "./undo.js";

const CHORD_MS = 1200;
let chordUntil = 0;

function follow(key) {
  const url = commands.go[key];
  if (url) location.assign(url);
  return Boolean(url);
}

export function openHelp() {
  const dialog = document.getElementById("help");
  if (dialog && !dialog.open) dialog.showModal();
}

function onKey(event) {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k" && commands.find) {
    event.preventDefault();
    return openPalette();
  }
  if (event.key === "Escape") return escape(event);
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || !keysAreOn()) return;
  if (document.querySelector("dialog[open]")) return;
  const now = performance.now();
  if (now < chordUntil) {
    chordUntil = 0;
    if (follow(`g ${event.key}`)) event.preventDefault();
    return;
  }
  if (event.key === "g") chordUntil = now + CHORD_MS;
  else if (event.key === "?") openHelp();
  else if (event.key === "/") focusFilter(event);
  else if (single(event.key)) event.preventDefault();
}

// A key by itself: a new search, a move in the list, something done to the chosen row, an act of this page.
function single(key) {
  if (key === "n") return follow("n");
  if (key === "j" || key === "k") return move(key === "j" ? 1 : -1);
  if ((key === "[" || key === "]") && tab(key === "]" ? 1 : -1)) return true;
  const item = document.activeElement?.closest("[data-item]");
  if (item) {
    const button = item.closest("tr, li")?.querySelector(`[data-row-key="${CSS.escape(key)}"]`);
    if (button) {
      button.click();
      return true;
    }
    if (key === "Enter" && item.matches("tr")) {
      item.querySelector("a")?.click();
      return true;
    }
  }
  if (key === "u" && undoNewest()) return true;
  const act = commands.acts.find((one) => one.key === key);
  if (act === undefined && commands.denied?.[key]) say(commands.denied[key]);
  return act !== undefined && perform(act);
}

// The tab before or after the one that is open.
function tab(step) {
  const links = [...document.querySelectorAll("nav[data-tab-keys] a")];
  const at = links.findIndex((link) => link.hasAttribute("aria-current"));
  if (links[at + step]) links[at + step].click();
  return links.length > 0;
}

function move(step) {
  const items = [...document.querySelectorAll("[data-item]")].filter((item) => item.getClientRects().length);
  if (!items.length) return false;
  const at = items.indexOf(document.activeElement?.closest("[data-item]"));
  const next = at < 0 ? (step > 0 ? 0 : items.length - 1) : Math.min(items.length - 1, Math.max(0, at + step));
  items[next].focus();
  return true;
}

function escape(event) {
  closeMenus();
  if (event.target instanceof HTMLElement && event.target.matches("[data-filter]")) event.target.blur();
}

function focusFilter(event) {
  const field = document.querySelector("[data-filter]");
  if (!field) return;
  event.preventDefault();
  field.focus();
  if (field.select) field.select();
}

function closeMenus(except) {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (menu === except) continue;
    const held = menu.contains(document.activeElement);
    menu.open = false;
    if (held) menu.querySelector("summary").focus();
  }
}

document.addEventListener("keydown", onKey);
// An open menu would lie over what gets the focus next.
document.addEventListener("focusin", (event) => closeMenus(event.target.closest("details.menu")));
document.addEventListener("click", (event) => {
  closeMenus(event.target.closest("details.menu"));
  if (event.target.closest("[data-open-help]")) openHelp();
  if (event.target.closest("[data-open-palette]") && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    openPalette();
  }
});
document.addEventListener("change", (event) => {
  if (!event.target.matches("[data-keys-switch]")) return;
  try {
    localStorage.setItem(KEYS_OFF, event.target.checked ? "0" : "1");
  } catch {
    // not remembered
  }
});
for (const box of document.querySelectorAll("[data-keys-switch]")) box.checked = keysAreOn();

// A button says so at once when its form is on the way, and a second press sends nothing.
document.addEventListener("submit", (event) => {
  const button = event.submitter;
  if (event.defaultPrevented || !(button instanceof HTMLButtonElement) || event.target.method === "dialog") return;
  if (event.target.hasAttribute("data-sent")) {
    event.preventDefault();
    return;
  }
  if (event.target.method === "post" && !event.target.hasAttribute("hx-post")) {
    event.target.setAttribute("data-sent", "");
    button.setAttribute("aria-busy", "true");
  }
});
// Back from the browser's page cache: forms may be sent again.
window.addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  for (const form of document.querySelectorAll("form[data-sent]")) form.removeAttribute("data-sent");
  for (const button of document.querySelectorAll("[aria-busy]")) button.removeAttribute("aria-busy");
});

// Polled parts: not while nobody looks, and never under a selection. The next poll brings what was skipped.
document.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden && event.detail.elt.hasAttribute("data-poll")) event.preventDefault();
});
document.addEventListener("htmx:beforeSwap", (event) => {
  const { target, requestConfig } = event.detail;
  const polled = requestConfig.verb === "get" && requestConfig.elt === target && target.hasAttribute("data-hold");
  if (polled && inUse(target)) event.detail.shouldSwap = false;
});

function inUse(part) {
  const selection = document.getSelection();
  const selected = selection && !selection.isCollapsed && selection.containsNode(part, true);
  const editing = part.contains(document.activeElement) && typing(document.activeElement);
  return selected || editing || part.querySelector("details.menu[open]") !== null;
}

// What a person asked for and did not get is said; polls stay quiet and try again.
function say(text) {
  const place = document.getElementById("messages");
  const notice = document.createElement("p");
  notice.className = "notice notice-error is-said"; // in sight wherever the reader has scrolled to
  notice.setAttribute("role", "alert");
  notice.textContent = text;
  place.replaceChildren(notice);
}
// The server's own sentence names the role that is missing; a form that was too old has none.
function forbidden(xhr) {
  const page = new DOMParser().parseFromString(xhr.responseText, "text/html");
  return page.querySelector("[data-why]")?.textContent || gettext("Your account does not have permission to do this, or the page is out of date. Reload the page.");
}
document.addEventListener("htmx:sendError", (event) => {
  if (!event.detail.elt.hasAttribute("data-poll")) say(gettext("The server cannot be reached. Nothing was sent; try again."));
});
document.addEventListener("htmx:responseError", (event) => {
  const { elt, xhr } = event.detail;
  if (elt.hasAttribute("data-poll") || [401, 409, 422].includes(xhr.status)) return;
  say(xhr.status === 403 ? forbidden(xhr) : interpolate(gettext("The server failed (%(status)s). Try again, or see the server log."), { status: xhr.status }));
});

// A list that comes again after an act on one of its rows goes on where its reader was.
document.getElementById(location.hash.slice(1))?.closest("[data-item]")?.focus();

// On a narrow window the bar's links scroll: the one of this page is in sight.
const current = document.querySelector(".bar-nav [aria-current]");
if (current) {
  const nav = current.parentElement;
  const past = current.getBoundingClientRect().right - nav.getBoundingClientRect().right;
  if (past > 0) nav.scrollLeft += past + 8;
}
