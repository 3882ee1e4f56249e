// Acts on a node of the tree, by key, by menu, or by the forms beside it: shown at once, taken back when refused.
// What may be done is what the server put into the panel of the node; menu and keys press its buttons.

import { commands, send } from "./acts.js";
import { gettext, interpolate } from "./texts.js";

const acts = () => commands.acts.filter((act) => act.tree);

export class TreeActs {
  // `select(n)` opens the panel of a node and resolves when it is there; `show` draws what the store holds.
  constructor({ tree, grid, drawer, store, select, show, say }) {
    Object.assign(this, { tree, grid, drawer, store, select, show, say });
    this.menu = null;
    document.addEventListener("perform", (event) => this.asked(event));
    for (const place of [tree && tree.canvas, grid.body]) place?.addEventListener("contextmenu", (event) => this.pointed(event));
    drawer.body.addEventListener("htmx:beforeRequest", ({ detail }) => this.sent(detail.elt, detail.requestConfig.triggeringEvent));
    drawer.body.addEventListener("submit", (event) => !event.target.hasAttribute("hx-post") && this.sent(event.target, event));
    document.addEventListener("htmx:afterRequest", (event) => this.came(event.detail));
  }

  // A key or the palette: about the row that has the focus, else about the node whose panel is open.
  asked(event) {
    const act = event.detail;
    if (!act.tree) return;
    const row = document.activeElement?.closest("#grid-body tr");
    const n = row ? Number(row.dataset.number) : this.drawer.shown;
    event.preventDefault();
    if (n === null) this.say(gettext("Choose a node first: click it, or b for the best one."));
    else this.perform(n, act);
  }

  async perform(n, act) {
    const word = act.fields.mark || act.fields.act || "";
    const guessed = this.drawer.shown !== n && this.guess(n, word || (act.url.endsWith("/verify") ? "verify" : ""));
    await this.select(n);
    const before = this.waiting;
    const done = this.drawer.shown === n && send(act);
    if (!done) this.say(this.why(n, act));
    if (guessed && this.waiting === before) this.answer(n, false); // nothing was sent: a field waits, or there is no form
  }

  // Why the panel has no such button; the server has put it beside those that it has.
  why(n, act) {
    const known = this.drawer.shown === n && act.url.endsWith("/steer") && this.drawer.body.querySelector("[data-cannot]")?.dataset.cannot;
    const text = known ? gettext("Not available for node %(number)s: %(why)s.") : gettext("Not available for node %(number)s now.");
    return interpolate(text, { number: n, why: known });
  }

  // -- shown before the answer ------------------------------------------------------------------------------------------

  guess(n, word) {
    const known = this.store.guess(n, word);
    if (known) this.show();
    return known;
  }

  answer(n, right) {
    this.store.answered(n, right);
    this.show();
  }

  sent(form, event) {
    const number = form.elements?.number;
    if (!number || form.method !== "post") return;
    this.waiting = { form, n: Number(number.value) };
    form.dataset.guessed = number.value;
    this.guess(this.waiting.n, (event?.submitter?.name === "mark" ? event.submitter : form.elements.mark || form.elements.act).value);
  }

  came({ elt, successful }) {
    if (elt?.dataset?.guessed) this.answer(Number(elt.dataset.guessed), Boolean(successful));
  }

  // -- the menu ---------------------------------------------------------------------------------------------------------

  pointed(event) {
    const row = event.target.closest("tr");
    const n = row ? Number(row.dataset.number) : this.tree.nodeAt(event.offsetX, event.offsetY);
    if (n === null || !acts().length) return;
    event.preventDefault();
    const box = row?.getBoundingClientRect();
    const keyboard = box && event.clientX === 0 && event.clientY === 0;
    this.open(n, keyboard ? box.left + 40 : event.clientX, keyboard ? box.bottom : event.clientY);
  }

  open(n, x, y) {
    this.close();
    const menu = document.createElement("div");
    menu.className = "tree-menu";
    menu.setAttribute("role", "menu");
    menu.setAttribute("aria-label", interpolate(gettext("Node %(number)s"), { number: n }));
    for (const act of acts()) menu.append(this.item(n, act));
    this.opener = document.activeElement;
    this.menu = menu;
    (document.querySelector("main") ?? document.body).append(menu); // within a landmark
    menu.style.left = `${Math.max(4, Math.min(x, innerWidth - menu.offsetWidth - 4))}px`;
    menu.style.top = `${Math.max(4, Math.min(y, innerHeight - menu.offsetHeight - 4))}px`;
    menu.addEventListener("keydown", (event) => this.key(event));
    menu.addEventListener("focusout", (event) => !menu.contains(event.relatedTarget) && this.close(false));
    menu.firstElementChild.focus();
  }

  item(n, act) {
    const item = document.createElement("button");
    item.type = "button";
    item.setAttribute("role", "menuitem");
    item.tabIndex = -1;
    item.append(act.label, Object.assign(document.createElement("kbd"), { textContent: act.shown }));
    item.addEventListener("click", () => {
      this.close();
      this.perform(n, act);
    });
    return item;
  }

  key(event) {
    const items = [...this.menu.children];
    const at = items.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (to !== undefined) items.at(to % items.length).focus();
    else if (event.key === "Escape" || event.key === "Tab") this.close();
    else {
      const act = acts().findIndex((one) => one.key === event.key);
      if (act >= 0) items[act].click();
      else if (event.key === "Enter" || event.key === " ") return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  close(back = true) {
    const { menu } = this;
    this.menu = null;
    if (!menu) return;
    menu.remove();
    if (back && this.opener?.isConnected) this.opener.focus({ preventScroll: true });
  }
}
