// The command palette: one field over pages, acts of this page, and what the server finds by name.

import { commands, doorOf, perform } from "./acts.js";
import { gettext, interpolate } from "./texts.js";

const WAIT_MS = 120;
const dialog = document.getElementById("palette");
const input = document.getElementById("palette-input");
const list = document.getElementById("palette-list");
const counter = document.getElementById("palette-count");
const GROUPS = [gettext("On this page"), gettext("Pages"), gettext("This browser")];
let shown = []; // what the list holds, in order
let chosen = 0;
let timer = 0;
let asked = null; // of the request on its way, to give it up

export function openPalette() {
  if (!dialog || dialog.open) return;
  input.value = "";
  dialog.showModal();
  show(local(""), "");
}

function local(query) {
  const rows = commands.acts
    .filter((act) => doorOf(act) !== null)
    .map((act) => ({ group: GROUPS[0], label: act.label, detail: "", key: act.shown, run: () => perform(act) }));
  for (const [label, detail, url, key] of commands.places) rows.push({ group: GROUPS[1], label, detail, key, url });
  rows.push({ group: GROUPS[2], label: gettext("Keyboard shortcuts"), detail: "", key: "?", run: () => document.querySelector("[data-open-help]").click() });
  for (const input of document.querySelectorAll("[data-theme-switch] input")) {
    rows.push({ group: GROUPS[2], label: interpolate(gettext("Theme: %(name)s"), { name: input.value }), detail: "", key: "", run: () => input.click() });
  }
  const parts = query.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = rows.filter((row) => parts.every((part) => `${row.label} ${row.detail}`.toLowerCase().includes(part)));
  return fits.sort((a, b) => rank(a, parts) - rank(b, parts)); // stable: equal ranks keep their order
}

// What begins with the words goes before what only holds them, within its group.
function rank(row, parts) {
  const group = GROUPS.indexOf(row.group) * 2;
  return group + (parts.length && row.label.toLowerCase().startsWith(parts[0]) ? 0 : 1);
}

function show(rows, query) {
  shown = rows;
  chosen = Math.min(chosen, Math.max(0, rows.length - 1));
  list.replaceChildren();
  let group = null;
  let name = "";
  rows.forEach((row, place) => {
    if (row.group !== name) {
      name = row.group;
      group = document.createElement("div");
      group.setAttribute("role", "group");
      group.setAttribute("aria-label", name);
      const title = document.createElement("div");
      title.className = "palette-group";
      title.setAttribute("aria-hidden", "true");
      title.textContent = name;
      group.append(title);
      list.append(group);
    }
    group.append(option(row, place));
  });
  counter.textContent = rows.length ? interpolate(gettext("%(count)s found"), { count: rows.length }) : interpolate(gettext("No results for “%(query)s”"), { query: query });
  mark();
}

function option(row, place) {
  const line = document.createElement("div");
  line.id = `palette-${place}`;
  line.className = "palette-option";
  line.setAttribute("role", "option");
  line.append(part("palette-name", row.label));
  if (row.detail) line.append(part("palette-detail", row.detail));
  if (row.key) {
    const keys = part("palette-key", "");
    for (const key of row.key.split(" ")) keys.append(Object.assign(document.createElement("kbd"), { textContent: key }), " ");
    line.append(keys);
  }
  line.addEventListener("click", () => take(place));
  line.addEventListener("pointermove", () => {
    if (chosen === place) return;
    chosen = place;
    mark(false);
  });
  return line;
}

function part(name, text) {
  const element = document.createElement("span");
  element.className = name;
  element.textContent = text;
  return element;
}

function mark(scroll = true) {
  shown.forEach((_, place) => {
    const line = document.getElementById(`palette-${place}`);
    line.setAttribute("aria-selected", String(place === chosen));
    if (place === chosen && scroll) line.scrollIntoView({ block: "nearest" });
  });
  if (shown.length) input.setAttribute("aria-activedescendant", `palette-${chosen}`);
  else input.removeAttribute("aria-activedescendant");
}

function take(place) {
  const row = shown[place];
  if (!row) return;
  dialog.close(); // gives the focus back; an action may then lead it to a field
  if (row.url) location.assign(row.url);
  else row.run();
}

function typed() {
  const query = input.value.trim();
  chosen = 0;
  show(local(query), query);
  clearTimeout(timer);
  if (asked) asked.abort();
  if (query) timer = setTimeout(() => ask(query), WAIT_MS);
}

async function ask(query) {
  asked = new AbortController();
  try {
    const url = `${commands.find}?q=${encodeURIComponent(query)}`;
    const answer = await fetch(url, { signal: asked.signal, redirect: "manual", headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(String(answer.status));
    const { rows } = await answer.json();
    if (input.value.trim() !== query) return;
    show([...local(query), ...rows.map(([group, label, detail, url]) => ({ group, label, detail, url, key: "" }))], query);
  } catch (error) {
    if (error.name !== "AbortError") counter.textContent = gettext("The server did not respond. Only pages and actions are listed.");
  }
}

function onKey(event) {
  const last = shown.length - 1;
  const moves = { ArrowDown: chosen === last ? 0 : chosen + 1, ArrowUp: chosen === 0 ? last : chosen - 1, PageDown: Math.min(last, chosen + 8), PageUp: Math.max(0, chosen - 8) };
  if (event.key in moves && shown.length) {
    chosen = moves[event.key];
    mark();
  } else if (event.key === "Enter" && !event.isComposing) take(chosen);
  else return;
  event.preventDefault();
}

if (dialog) {
  input.addEventListener("input", typed);
  input.addEventListener("keydown", onKey);
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}
