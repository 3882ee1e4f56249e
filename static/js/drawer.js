// The node panel beside the tree: the node page's own fragment, fetched on demand, focus returned on close.

import { gettext, interpolate } from "./texts.js";

const SAID_MS = 8000;

export class Drawer {
  constructor({ element, body, title, link, base }) {
    this.element = element;
    this.body = body;
    this.title = title;
    this.link = link;
    this.base = base;
    this.shown = null;
    this.loaded = null; // whose panel is there
    this.loading = null; // the panel that is on its way
    this.wanted = ""; // the query of the next panel; without one it stays what it was
    this.outdated = false;
    // An answer to a refresh comes a moment after it was asked for: the reader may have begun to use the panel meanwhile.
    body.addEventListener("htmx:beforeSwap", (event) => {
      const shown = Number(body.querySelector("[data-node-panel]")?.dataset.nodePanel);
      if (event.detail.target !== body || shown !== this.shown || !held(body)) return;
      event.detail.shouldSwap = false;
      this.outdated = true;
    });
    // What came while the panel was in use is fetched once the reader has left it.
    element.addEventListener("focusout", () => setTimeout(() => this.outdated && this.refresh()));
  }

  // `focus`: whether the reader's focus goes into the drawer; never when data alone opened or refreshed it.
  async open(n, { focus = true } = {}) {
    const again = this.shown === n;
    if (!this.element.contains(document.activeElement)) this.opener = document.activeElement;
    this.shown = n;
    this.element.hidden = false;
    document.getElementById("cockpit").classList.add("with-drawer");
    this.title.textContent = n === 0 ? gettext("Start") : interpolate(gettext("Node %(number)s"), { number: n });
    this.link.href = `${this.base}n/${n}/`;
    if (focus) this.element.focus({ preventScroll: true });
    if (!again) this.loading = this.load();
    await this.loading;
  }

  // A panel in use is not swapped under the reader's hands.
  async refresh() {
    if (this.shown === null) return;
    this.outdated = held(this.body);
    if (!this.outdated) await this.load();
  }

  async load() {
    const n = this.shown;
    const said = this.sentence(n);
    const asked = this.wanted !== "";
    const unfolded = this.shown === this.loaded ? opened(this.body).map(name) : [];
    this.outdated = false;
    const query = this.wanted || (n === this.loaded ? (this.body.querySelector(".difference") || this.body.querySelector("[data-query]"))?.dataset.query : "");
    this.wanted = "";
    this.body.setAttribute("aria-busy", "true");
    try {
      await window.htmx.ajax("GET", `${this.base}n/${n}/${query ? `?${query}` : ""}`, { target: this.body, swap: "innerHTML" });
      window.htmx.process(this.body); // it would a moment later; a key may press a button of it before
      this.loaded = n;
      if (asked) this.body.querySelector(".tabs")?.scrollIntoView({ block: "start" });
      for (const part of this.body.querySelectorAll("details")) part.open ||= unfolded.includes(name(part));
      if (said && !said.isConnected && this.shown === n) this.body.querySelector(".steer")?.before(said);
    } finally {
      this.body.removeAttribute("aria-busy");
    }
  }

  // What an act came to, or why it was refused. Events fetch the panel anew a moment later: the sentence stays for SAID_MS.
  sentence(n) {
    const said = this.body.querySelector("[data-done]");
    if (!said || Number(said.dataset.done) !== n) return null;
    said.dataset.since ??= Date.now();
    return Date.now() - Number(said.dataset.since) < SAID_MS ? said : null;
  }

  close() {
    if (this.shown === null) return;
    this.shown = null;
    this.element.hidden = true;
    document.getElementById("cockpit").classList.remove("with-drawer");
    if (this.opener && this.opener.isConnected) this.opener.focus({ preventScroll: true });
  }
}

const opened = (element) => [...element.querySelectorAll("details[open]")];
const name = (part) => part.querySelector("summary")?.textContent.trim();

// Focus in a field, selected text or a draft that was not sent yet: the reader is using it.
export function held(element) {
  const active = document.activeElement;
  if (element.contains(active) && active !== element) return true;
  if ([...element.querySelectorAll("textarea")].some((field) => field.value.trim() !== "" && field.value !== field.defaultValue)) return true;
  const selection = getSelection();
  return Boolean(selection && !selection.isCollapsed && element.contains(selection.anchorNode));
}
