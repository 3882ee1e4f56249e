// Where the nodes are: their places in columns and rows, and on the way there from the places they had before.

import { layout } from "./treelayout.js";

const EASE_MS = 150;

export class Places {
  constructor(hierarchy) {
    this.hierarchy = hierarchy;
    this.laid = new Map(); // subtrees as they were laid out last
    this.at = new Map();
    this.from = new Map();
    this.columns = 1;
    this.rows = 1;
    this.easeFrom = 0; // time stamp; 0: nothing is on its way
  }

  get(n) {
    return this.at.get(n);
  }

  has(n) {
    return this.at.has(n);
  }

  // Lay out a scene; with `ease` the nodes walk to their new places.
  set(scene, ease) {
    this.from = this.at;
    const laid = layout(scene, this.hierarchy, this.laid);
    this.at = laid.places;
    this.columns = laid.columns;
    this.rows = laid.rows;
    this.easeFrom = this.from.size && ease ? performance.now() : 0;
  }

  get easing() {
    return this.easeFrom !== 0;
  }

  // The view was moved by so many px under nodes that still walk: they start that much nearer.
  shift(view, dx, dy) {
    const moved = new Map();
    for (const [n, place] of this.from) moved.set(n, { x: place.x - dx / view.sx, y: place.y - dy / view.sy });
    this.from = moved;
  }

  // Places in px at this moment, by number.
  spots(scene, view) {
    const share = this.easeFrom ? Math.min(1, (performance.now() - this.easeFrom) / EASE_MS) : 1;
    if (share >= 1) this.easeFrom = 0;
    const ease = 1 - (1 - share) ** 3;
    const spots = new Map();
    for (const node of scene.nodes) {
      const to = this.at.get(node.n);
      if (!to) continue;
      const was = ease < 1 ? this.from.get(node.n) || this.from.get(node.p) || to : to;
      spots.set(node.n, view.screen({ x: was.x + (to.x - was.x) * ease, y: was.y + (to.y - was.y) * ease }));
    }
    return spots;
  }

  // Number of the node nearest to a point in px, null when none is `within` px.
  nearest(view, x, y, within) {
    let found = null;
    let least = within * within;
    for (const [n, place] of this.at) {
      const dx = place.x * view.sx + view.tx - x;
      const dy = place.y * view.sy + view.ty - y;
      const far = dx * dx + dy * dy;
      if (far < least) {
        least = far;
        found = n;
      }
    }
    return found;
  }
}
