// The tree on a canvas: drawn only when something changed, moved only when the reader asks. Its twin is grid.js.

import { coloursOf, fontOf } from "./colours.js";
import { listen, REACH } from "./treeinput.js";
import { shapesFrom } from "./treemarks.js";
import { COLOURS, paint } from "./treepaint.js";
import { Places } from "./treeplaces.js";
import { View } from "./treeview.js";

const still = matchMedia("(prefers-reduced-motion: reduce)");

export class Tree extends EventTarget {
  constructor({ canvas, stage, tip, legend, hierarchy, steps }) {
    super();
    this.canvas = canvas;
    this.stage = stage;
    this.tip = tip;
    this.steps = steps;
    this.shapes = shapesFrom(legend);
    this.view = new View();
    this.places = new Places(hierarchy);
    this.placed = false; // the first fit was done
    this.moved = false; // somebody chose this view
    this.scene = null;
    this.selected = null;
    this.hovered = null;
    this.dirty = false;
    this.recolour();
    listen(this);
    new ResizeObserver(() => this.resize()).observe(stage);
    document.addEventListener("adaexplore:theme", () => this.recolour());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
  }

  // -- data ---------------------------------------------------------------------------------------------------------

  show(scene) {
    const anchor = this.placed && this.scene ? this.anchor() : null;
    const held = anchor !== null ? this.screen(this.places.get(anchor)) : null;
    this.scene = scene;
    this.places.set(scene, !still.matches && !document.hidden);
    if (!this.placed && this.view.width) this.fit(true);
    else if (held && this.places.has(anchor)) {
      const now = this.screen(this.places.get(anchor));
      this.view.pan(held.x - now.x, held.y - now.y);
      this.places.shift(this.view, held.x - now.x, held.y - now.y);
    }
    this.draw();
  }

  // The node that must stay put: the selected one, else the one nearest the centre.
  anchor() {
    if (this.selected !== null && this.places.has(this.selected)) return this.selected;
    return this.places.nearest(this.view, this.view.width / 2, this.view.height / 2, Infinity);
  }

  select(n) {
    this.selected = n;
    this.draw();
  }

  // -- view ---------------------------------------------------------------------------------------------------------

  screen(place) {
    return this.view.screen(place);
  }

  fit(first = false) {
    if (!this.scene || !this.view.width) return;
    // The first view leaves room for the whole budget, so that a growing tree stays in sight without moving.
    const ahead = first && this.scene.told.length < this.steps;
    this.view.fit(Math.max(this.places.columns, ahead ? 7 : 1), Math.max(this.places.rows, ahead ? this.steps * 0.42 : 1));
    this.placed = true;
    this.draw();
  }

  zoom(factor, x, y) {
    this.view.zoom(factor, x, y);
    this.touched();
  }

  pan(dx, dy) {
    this.view.pan(dx, dy);
    this.touched();
  }

  touched() {
    this.moved = true;
    this.dispatchEvent(new Event("touched"));
    this.draw();
  }

  // The node under a place of the canvas, else null.
  nodeAt(x, y) {
    return this.scene ? this.places.nearest(this.view, x, y, REACH.choose) : null;
  }

  // Bring a node into the middle because somebody asked for it; a view that shows it well stays.
  reveal(n, always = false) {
    const place = this.places.get(n);
    if (!place || (this.view.shows(place) && !always)) return;
    this.view.centre(place);
    this.moved = true;
    this.draw();
  }

  // -- drawing ------------------------------------------------------------------------------------------------------

  recolour() {
    this.colours = { ...coloursOf(this.stage, COLOURS), font: fontOf(this.stage) };
    this.draw();
  }

  resize() {
    const ratio = Math.min(2, devicePixelRatio || 1);
    this.view.width = this.stage.clientWidth;
    this.view.height = this.stage.clientHeight;
    if (!this.view.width) return;
    this.canvas.width = Math.round(this.view.width * ratio);
    this.canvas.height = Math.round(this.view.height * ratio);
    this.ratio = ratio;
    // The reader changed the room, not the data: a view that nobody has moved yet is fitted again.
    if (this.scene && !this.moved) this.fit(true);
    if (!document.hidden) this.paint();
  }

  draw() {
    if (this.dirty || document.hidden) return;
    this.dirty = true;
    requestAnimationFrame(() => {
      this.dirty = false;
      this.paint();
      if (this.places.easing) this.draw();
    });
  }

  paint() {
    if (!this.scene || !this.view.width) return;
    const ctx = this.canvas.getContext("2d");
    ctx.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    const seen = paint(this, ctx, this.places.spots(this.scene, this.view));
    this.dispatchEvent(new CustomEvent("painted", { detail: { outside: this.scene.nodes.length - seen } }));
  }
}
