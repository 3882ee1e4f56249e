// The tree on a canvas: drawn only when something changed, moved only when the reader asks.

import { lookOf } from "./store.js";
import { paintLabels } from "./treelabels.js";
import { layout } from "./treelayout.js";
import { CIRCLE, shapesFrom, tipLines } from "./treemarks.js";

const EASE_MS = 150;
const MANY = 3000; // visible nodes beyond which they are plain squares
const EDGE = 44; // px of air around a fitted tree
const still = matchMedia("(prefers-reduced-motion: reduce)");

export class Tree extends EventTarget {
  constructor({ canvas, stage, tip, legend, hierarchy, steps }) {
    super();
    this.canvas = canvas;
    this.stage = stage;
    this.tip = tip;
    this.hierarchy = hierarchy;
    this.steps = steps;
    this.shapes = shapesFrom(legend);
    this.view = { sx: 96, sy: 26, tx: EDGE, ty: EDGE };
    this.placed = false; // the first fit was done
    this.moved = false; // somebody chose this view
    this.scene = null;
    this.places = new Map();
    this.from = new Map();
    this.easeFrom = 0;
    this.selected = null;
    this.hovered = null;
    this.dirty = false;
    this.readColours();
    this.listen();
    new ResizeObserver(() => this.resize()).observe(stage);
    document.addEventListener("adaexplore:theme", () => this.recolour());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
  }

  // -- data ---------------------------------------------------------------------------------------------------------

  show(scene) {
    const before = this.places;
    const anchor = this.placed && this.scene ? this.anchor() : null;
    const held = anchor !== null ? this.screen(before.get(anchor)) : null;
    this.scene = scene;
    const laid = layout(scene, this.hierarchy);
    this.places = laid.places;
    this.extent = laid;
    this.from = before;
    this.easeFrom = before.size && !still.matches && !document.hidden ? performance.now() : 0;
    if (!this.placed && this.width) this.fit(true);
    else if (held && this.places.has(anchor)) {
      const now = this.screen(this.places.get(anchor));
      this.shiftFrom(held.x - now.x, held.y - now.y);
    }
    this.draw();
  }

  // Correct the pan without moving the anchor, also while places still ease from where they were.
  shiftFrom(dx, dy) {
    this.view.tx += dx;
    this.view.ty += dy;
    const moved = new Map();
    for (const [n, place] of this.from) moved.set(n, { x: place.x - dx / this.view.sx, y: place.y - dy / this.view.sy });
    this.from = moved;
  }

  // The node that must stay put: the selected one, else the one nearest the centre.
  anchor() {
    if (this.selected !== null && this.places.has(this.selected)) return this.selected;
    return this.nearest(this.width / 2, this.height / 2, Infinity);
  }

  select(n) {
    this.selected = n;
    this.draw();
  }

  // -- view ---------------------------------------------------------------------------------------------------------

  screen(place) {
    const { sx, sy, tx, ty } = this.view;
    return { x: place.x * sx + tx, y: place.y * sy + ty };
  }

  fit(first = false) {
    if (!this.scene || !this.width) return;
    // The first view leaves room for the whole budget, so that a growing tree stays in sight without moving.
    const ahead = first && this.scene.told.length < this.steps;
    const rows = Math.max(this.extent.rows, ahead ? this.steps * 0.42 : 1);
    const columns = Math.max(this.extent.columns, ahead ? 7 : 1);
    const sx = clamp((this.width - 2 * EDGE - 30) / columns, 34, 150);
    const sy = clamp((this.height - 2 * EDGE) / rows, 3, 44);
    const spare = this.height - 2 * EDGE - rows * sy;
    this.view = { sx, sy, tx: EDGE, ty: EDGE + Math.max(0, Math.min(spare / 2, 120)) };
    this.placed = true;
    this.draw();
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const v = this.view;
    const sx = clamp(v.sx * factor, 12, 260);
    const sy = clamp(v.sy * factor, 0.6, 90);
    this.view = { sx, sy, tx: x - ((x - v.tx) * sx) / v.sx, ty: y - ((y - v.ty) * sy) / v.sy };
    this.touched();
  }

  pan(dx, dy) {
    this.view.tx += dx;
    this.view.ty += dy;
    this.touched();
  }

  touched() {
    this.moved = true;
    this.dispatchEvent(new Event("touched"));
    this.draw();
  }

  // Bring a node into the middle because somebody asked for it; a view that shows it well stays.
  reveal(n, always = false) {
    const place = this.places.get(n);
    if (!place) return;
    const { x, y } = this.screen(place);
    const inside = x > 30 && y > 24 && x < this.width - 60 && y < this.height - 24;
    if (inside && !always) return;
    this.view.tx += this.width / 2 - x;
    this.view.ty += this.height / 2 - y;
    this.moved = true;
    this.draw();
  }

  // -- input --------------------------------------------------------------------------------------------------------

  listen() {
    const { canvas } = this;
    const pointers = new Map();
    let moved = 0;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
      moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const held = pointers.get(event.pointerId);
      if (!held) return this.hover(event.offsetX, event.offsetY);
      const dx = event.offsetX - held.x;
      const dy = event.offsetY - held.y;
      moved += Math.abs(dx) + Math.abs(dy);
      if (pointers.size === 2) this.pinch(pointers, event);
      else if (moved > 4) this.pan(dx, dy);
      if (moved > 4 || pointers.size === 2) pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
      return undefined;
    });
    const up = (event) => {
      pointers.delete(event.pointerId);
      if (event.type === "pointerup" && moved <= 4) this.choose(event.offsetX, event.offsetY);
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("pointerleave", () => this.hover(-1e6, -1e6));
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY * 0.004), event.offsetX, event.offsetY);
      },
      { passive: false },
    );
  }

  pinch(pointers, event) {
    const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    const held = pointers.get(event.pointerId);
    const before = Math.hypot(held.x - other.x, held.y - other.y);
    const now = Math.hypot(event.offsetX - other.x, event.offsetY - other.y);
    if (before > 10) this.zoom(now / before, (other.x + event.offsetX) / 2, (other.y + event.offsetY) / 2);
  }

  choose(x, y) {
    const n = this.nearest(x, y, 14);
    if (n !== null) this.dispatchEvent(new CustomEvent("choose", { detail: n }));
  }

  hover(x, y) {
    const n = this.nearest(x, y, 12);
    if (n === this.hovered) return;
    this.hovered = n;
    this.canvas.classList.toggle("over-node", n !== null);
    this.showTip();
    this.draw();
  }

  nearest(x, y, within) {
    let found = null;
    let least = within * within;
    for (const [n, place] of this.places) {
      const dx = place.x * this.view.sx + this.view.tx - x;
      const dy = place.y * this.view.sy + this.view.ty - y;
      const far = dx * dx + dy * dy;
      if (far < least) {
        least = far;
        found = n;
      }
    }
    return found;
  }

  showTip() {
    const node = this.hovered === null ? null : this.scene.by.get(this.hovered);
    this.tip.hidden = !node;
    if (!node) return;
    const { x, y } = this.screen(this.places.get(node.n));
    this.tip.replaceChildren(...tipLines(this.scene, node, this.words));
    const left = x + 14 + this.tip.offsetWidth > this.width ? x - 14 - this.tip.offsetWidth : x + 14;
    this.tip.style.left = `${Math.max(4, left)}px`;
    this.tip.style.top = `${clamp(y - 10, 4, this.height - this.tip.offsetHeight - 4)}px`;
  }

  // -- drawing ------------------------------------------------------------------------------------------------------

  recolour() {
    this.readColours();
    this.draw();
  }

  readColours() {
    const css = getComputedStyle(this.stage);
    const colour = (name) => css.getPropertyValue(name).trim();
    this.colours = {
      surface: colour("--surface"),
      text: colour("--text"),
      soft: colour("--text-soft"),
      faint: colour("--text-faint"),
      edge: colour("--tree-edge"),
      focus: colour("--focus"),
      font: colour("--font"),
      root: colour("--text-faint"),
      best: colour("--state-best"),
      correct: colour("--state-correct"),
      slower: colour("--state-slower"),
      wrong: colour("--state-wrong"),
      "compile-error": colour("--state-compile-error"),
      suspect: colour("--state-waiting"),
      proposing: colour("--state-running"),
      judging: colour("--state-running"),
      waiting: colour("--state-waiting"),
      cancelled: colour("--state-pruned"),
    };
  }

  resize() {
    const ratio = Math.min(2, devicePixelRatio || 1);
    this.width = this.stage.clientWidth;
    this.height = this.stage.clientHeight;
    if (!this.width) return;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.ratio = ratio;
    // The reader changed the room, not the data: a view that nobody has moved yet is fitted again.
    if (this.scene && !this.moved) this.fit(true);
    this.paint();
  }

  draw() {
    if (this.dirty || document.hidden) return;
    this.dirty = true;
    requestAnimationFrame(() => {
      this.dirty = false;
      this.paint();
      if (this.easeFrom) this.draw();
    });
  }

  // Where nodes are in this animation frame, in px.
  spots() {
    const share = this.easeFrom ? Math.min(1, (performance.now() - this.easeFrom) / EASE_MS) : 1;
    if (share >= 1) this.easeFrom = 0;
    const ease = 1 - (1 - share) ** 3;
    const { sx, sy, tx, ty } = this.view;
    const spots = new Map();
    for (const node of this.scene.nodes) {
      const to = this.places.get(node.n);
      if (!to) continue;
      const was = ease < 1 ? this.from.get(node.n) || this.from.get(node.p) || to : to;
      const x = (was.x + (to.x - was.x) * ease) * sx + tx;
      const y = (was.y + (to.y - was.y) * ease) * sy + ty;
      spots.set(node.n, { x, y });
    }
    return spots;
  }

  paint() {
    if (!this.scene || !this.width) return;
    const ctx = this.canvas.getContext("2d");
    ctx.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    ctx.clearRect(0, 0, this.width, this.height);
    const spots = this.spots();
    const visible = this.scene.nodes.filter((node) => {
      const s = spots.get(node.n);
      return s && s.x > -20 && s.x < this.width + 20 && s.y > -20 && s.y < this.height + 20;
    });
    this.paintEdges(ctx, spots);
    this.paintContext(ctx, spots);
    if (visible.length > MANY) this.paintSquares(ctx, spots, visible);
    else this.paintMarks(ctx, spots, visible);
    this.paintRings(ctx, spots);
    paintLabels(this, ctx, spots, visible);
    this.dispatchEvent(new CustomEvent("painted", { detail: { outside: this.scene.nodes.length - visible.length } }));
  }

  paintEdges(ctx, spots) {
    const paths = { large: new Path2D(), small: new Path2D(), spine: new Path2D() };
    for (const node of this.scene.nodes) {
      const b = spots.get(node.n);
      const a = spots.get(node.p);
      if (!a || !b || (a.y < -20 && b.y < -20) || (a.y > this.height + 20 && b.y > this.height + 20)) continue;
      const path = this.scene.spine.has(node.n) ? paths.spine : node.k === 1 ? paths.large : paths.small;
      const bend = a.x + (b.x - a.x) * 0.5;
      path.moveTo(a.x, a.y);
      path.bezierCurveTo(bend, a.y, bend, b.y, b.x, b.y);
    }
    ctx.strokeStyle = this.colours.edge;
    ctx.setLineDash([2, 2.5]);
    ctx.lineWidth = 1;
    ctx.stroke(paths.small);
    ctx.setLineDash([]);
    ctx.lineWidth = 1.25;
    ctx.stroke(paths.large);
    ctx.strokeStyle = this.colours.best;
    ctx.lineWidth = 2;
    ctx.stroke(paths.spine);
  }

  // Dashed arcs from the selected node to the kernels its prompt showed.
  paintContext(ctx, spots) {
    const node = this.selected === null ? null : this.scene.by.get(this.selected);
    const to = node && spots.get(node.n);
    if (!to || !node.c) return;
    ctx.strokeStyle = this.colours.focus;
    ctx.lineWidth = 1.25;
    ctx.setLineDash([4, 4]);
    for (const shown of node.c) {
      const from = spots.get(shown);
      if (!from || shown === node.p) continue;
      ctx.beginPath();
      ctx.moveTo(to.x, to.y);
      ctx.quadraticCurveTo((to.x + from.x) / 2 + (to.y - from.y) * 0.15, (to.y + from.y) / 2 - 28, from.x, from.y);
      ctx.stroke();
    }
    ctx.setLineDash([]);
  }

  // Half the size of a mark in px: grows with log2 of the speedup.
  radius(node) {
    const base = clamp(this.view.sy * 0.34, 2.4, 6);
    if (node.k === 0) return base * 0.8;
    if (node.x === null) return base * 0.86;
    return base * clamp(1 + 0.16 * Math.log2(node.x), 0.75, 1.6);
  }

  paintMarks(ctx, spots, visible) {
    const groups = new Map();
    for (const node of visible) {
      const look = lookOf(this.scene, node);
      if (!groups.has(look)) groups.set(look, []);
      groups.get(look).push(node);
    }
    const order = [...groups].sort(([a], [b]) => (a === "best") - (b === "best")); // records on top
    for (const [look, nodes] of order) {
      const shape = this.shapes.get(look) || this.shapes.get(look === "judging" ? "proposing" : "correct");
      const all = new Path2D();
      const ground = new Path2D();
      for (const node of nodes) {
        const { x, y } = spots.get(node.n);
        const scale = this.radius(node) / 5;
        all.addPath(look === "root" || look === "cancelled" ? CIRCLE : shape.path, new DOMMatrix([scale, 0, 0, scale, x - 6 * scale, y - 6 * scale]));
        ground.moveTo(x, y);
        ground.arc(x, y, this.radius(node) + 1.6, 0, 2 * Math.PI);
      }
      ctx.fillStyle = this.colours.surface;
      ctx.fill(ground);
      const colour = this.colours[look] || this.colours.soft;
      if (shape.line || look === "root" || look === "cancelled") {
        ctx.strokeStyle = colour;
        ctx.lineWidth = this.view.sy > 12 ? 1.8 : 1.3;
        ctx.lineCap = "round";
        ctx.stroke(all);
        if (look === "judging") this.paintDots(ctx, spots, nodes, colour);
      } else {
        ctx.fillStyle = colour;
        ctx.fill(all);
      }
    }
  }

  paintDots(ctx, spots, nodes, colour) {
    ctx.fillStyle = colour;
    ctx.beginPath();
    for (const node of nodes) {
      const { x, y } = spots.get(node.n);
      ctx.moveTo(x, y);
      ctx.arc(x, y, this.radius(node) * 0.4, 0, 2 * Math.PI);
    }
    ctx.fill();
  }

  paintSquares(ctx, spots, visible) {
    const groups = new Map();
    for (const node of visible) {
      const look = lookOf(this.scene, node);
      if (!groups.has(look)) groups.set(look, new Path2D());
      const { x, y } = spots.get(node.n);
      const half = look === "best" ? 3 : 2;
      groups.get(look).rect(x - half, y - half, 2 * half, 2 * half);
    }
    for (const [look, path] of groups) {
      ctx.fillStyle = this.colours[look] || this.colours.soft;
      ctx.fill(path);
    }
  }

  paintRings(ctx, spots) {
    const ring = (n, colour, gap, width) => {
      const s = n === null ? null : spots.get(n);
      if (!s) return;
      ctx.beginPath();
      ctx.arc(s.x, s.y, this.radius(this.scene.by.get(n)) + gap, 0, 2 * Math.PI);
      ctx.strokeStyle = colour;
      ctx.lineWidth = width;
      ctx.stroke();
    };
    ring(this.scene.best, this.colours.best, 3.5, 1.5);
    ring(this.hovered, this.colours.soft, 4, 1);
    ring(this.selected, this.colours.focus, 5.5, 2);
  }
}

function clamp(value, low, high) {
  return Math.min(high, Math.max(low, value));
}
