// The tree as an ARIA treegrid: the same rows as the server's, folded, walked with arrow keys, at most 200 at a time.

import { element as measure } from "./measure.js";
import { handsOn, KINDS, styleOf } from "./store.js";
import { gettext, interpolate } from "./texts.js";
import { ticked } from "./ticks.js";

const MOST = 200;

export class Grid extends EventTarget {
  constructor({ table, more, legend, base, labels }) {
    super();
    this.body = table.tBodies[0];
    this.table = table;
    this.more = more;
    this.base = base;
    this.run = Number(base.split("/").at(-2));
    this.labels = labels;
    this.folded = new Set();
    this.selected = null;
    this.current = 0; // the row that Tab reaches
    this.marks = new Map();
    for (const entry of legend.querySelectorAll("[data-style]")) this.marks.set(entry.dataset.style, entry.querySelector("svg"));
    this.body.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("focusin", (event) => this.focused(event));
    this.body.addEventListener("click", (event) => this.click(event));
  }

  // Rows are only rebuilt while the table is on the page; a focused row keeps its focus.
  show(scene) {
    this.scene = scene;
    if (this.table.offsetParent === null) {
      this.stale = true;
      return;
    }
    this.stale = false;
    const focused = this.body.contains(document.activeElement) ? document.activeElement.closest("tr").dataset.number : null;
    const onLink = focused !== null && document.activeElement.tagName === "A";
    const { rows, total } = this.rows();
    this.body.replaceChildren(...rows.map((row) => this.row(row)));
    this.table.setAttribute("aria-rowcount", String(total));
    this.more.textContent = total > rows.length ? interpolate(gettext("%(shown)s of %(total)s unfolded nodes are listed. Fold branches with ← to see the others."), { shown: rows.length, total }) : "";
    if (focused !== null) {
      const row = this.body.querySelector(`tr[data-number="${focused}"]`);
      if (row) (onLink ? row.querySelector("a") : row).focus({ preventScroll: true });
    }
  }

  appear() {
    if (this.stale !== false && this.scene) this.show(this.scene);
  }

  select(n) {
    this.selected = n;
    for (const row of this.body.rows) mark(row, Number(row.dataset.number) === n);
  }

  rows() {
    const { scene } = this;
    const rows = [];
    let total = 0;
    const visit = (n, level, position, siblings) => {
      total += 1;
      const children = [...scene.childrenOf(n)].sort((a, b) => scene.spine.has(b) - scene.spine.has(a) || a - b);
      if (rows.length < MOST) rows.push({ node: scene.by.get(n), level, position, siblings, children: children.length });
      if (!this.folded.has(n)) children.forEach((child, i) => visit(child, level + 1, i + 1, children.length));
    };
    if (scene.nodes.length) visit(scene.nodes[0].n, 1, 1, 1);
    return { rows, total };
  }

  row({ node, level, position, siblings, children }) {
    const row = document.createElement("tr");
    row.role = "row";
    row.dataset.number = node.n;
    row.tabIndex = node.n === this.current ? 0 : -1;
    row.setAttribute("aria-level", level);
    row.setAttribute("aria-posinset", position);
    row.setAttribute("aria-setsize", siblings);
    if (children) row.setAttribute("aria-expanded", String(!this.folded.has(node.n)));
    row.classList.toggle("on-best-path", this.scene.spine.has(node.n));
    row.classList.toggle("is-faded", this.scene.faded.has(node.n));
    mark(row, node.n === this.selected);
    const link = document.createElement("a");
    link.href = `${this.base}n/${node.n}/`;
    link.dataset.node = node.n;
    link.tabIndex = -1;
    link.textContent = node.n;
    const why = document.createElement("span");
    if (node.r) {
      why.className = "mono";
      why.textContent = node.r;
    }
    row.append(
      cell("grid-tick", ...(node.n ? [this.tick(node.n)] : [])),
      cell("grid-node", link),
      cell("", this.state(node), ...handsOn(node).map(([label]) => hand(label))),
      cell("num", measure(node)),
      cell("", KINDS[node.k]),
      cell("grid-why", why, node.d ? ` ${node.d}` : ""),
    );
    return row;
  }

  tick(n) {
    const label = document.createElement("label");
    label.className = "tick";
    const box = document.createElement("input");
    box.type = "checkbox";
    box.tabIndex = -1; // within a row the keys act: c ticks it
    box.dataset.tick = `${this.run}.${n}`;
    box.checked = ticked().includes(box.dataset.tick);
    const text = document.createElement("span");
    text.className = "visually-hidden";
    text.textContent = interpolate(gettext("Compare node %(number)s"), { number: n });
    label.append(box, text);
    return label;
  }

  state(node) {
    const best = node.n === this.scene.best;
    const style = styleOf(this.scene, node);
    const span = document.createElement("span");
    span.className = `state is-${best ? "best" : style}`;
    const shape = this.marks.get(style === "judging" ? "proposing" : style);
    if (shape) span.append(shape.cloneNode(true), " ");
    const text = document.createElement("span");
    const closest = this.scene.best === null && node.n === this.scene.leader;
    text.textContent = best ? gettext("best so far") : closest ? gettext("closest so far") : style === "best" ? gettext("was the best") : this.labels[node.style];
    span.append(text);
    return span;
  }

  focused(event) {
    const row = event.target.closest("tr");
    if (!row) return;
    for (const other of this.body.rows) other.tabIndex = other === row ? 0 : -1;
    this.current = Number(row.dataset.number);
  }

  click(event) {
    const row = event.target.closest("tr");
    if (!row || event.target.closest("a, label") || String(getSelection())) return;
    this.dispatchEvent(new CustomEvent("choose", { detail: Number(row.dataset.number) }));
  }

  key(event) {
    const row = event.target.closest("tr");
    if (!row || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const n = Number(row.dataset.number);
    const go = (other) => other && other.focus();
    const act = {
      ArrowDown: () => go(row.nextElementSibling),
      ArrowUp: () => go(row.previousElementSibling),
      Home: () => go(this.body.firstElementChild),
      End: () => go(this.body.lastElementChild),
      ArrowLeft: () => {
        if (row.getAttribute("aria-expanded") === "true") this.fold(n, true);
        else go(this.body.querySelector(`tr[data-number="${this.scene.by.get(n).p}"]`));
      },
      ArrowRight: () => {
        if (row.getAttribute("aria-expanded") === "false") this.fold(n, false);
        else if (row.hasAttribute("aria-expanded")) go(row.nextElementSibling);
      },
      Enter: () => this.dispatchEvent(new CustomEvent("choose", { detail: n })),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  fold(n, folded) {
    if (folded) this.folded.add(n);
    else this.folded.delete(n);
    this.show(this.scene);
  }
}

function cell(name, ...content) {
  const made = document.createElement("td");
  made.role = "gridcell";
  if (name) made.className = name;
  made.append(...content);
  return made;
}

function hand(label) {
  const span = document.createElement("span");
  span.className = "hand";
  span.textContent = label;
  return span;
}

function mark(row, selected) {
  if (selected) row.setAttribute("aria-selected", "true");
  else row.removeAttribute("aria-selected");
}
