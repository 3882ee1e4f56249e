// Labels of the tree: numbers and speedups where there is room for them.

import { times } from "./measure.js";
import { gettext } from "./texts.js";
import { radius } from "./treemarks.js";

const MAX_LABELS = 400;

export function paintLabels(tree, ctx, spots, visible) {
  const all = tree.view.sy >= 11 && tree.view.sx >= 56;
  ctx.textBaseline = "middle";
  ctx.lineJoin = "round";
  const named = (node) => node.n === tree.selected || node.n === tree.hovered || node.n === tree.scene.leader;
  const worth = (node) => (named(node) ? 3 : tree.scene.spine.has(node.n) || node.k === 0 ? 2 : node.x !== null ? 1 : 0);
  const wanted = all ? [...visible] : visible.filter(named);
  wanted.sort((a, b) => worth(b) - worth(a));
  const taken = new Taken();
  for (const node of all ? visible : wanted) {
    const { x, y } = spots.get(node.n);
    const r = radius(tree.view, node) + 1;
    taken.add(x - r, y - r, x + r, y + r);
  }
  let drawn = 0;
  for (const node of wanted) {
    if (drawn >= MAX_LABELS) break;
    drawn += paintLabel(tree, ctx, spots.get(node.n), node, named(node), taken);
  }
}

// Leaves carry their label at the side, inner nodes above or below the lines to their children; a label that would
// cover a mark or another label is left out. The tip and the table say it anyway.
function paintLabel(tree, ctx, { x, y }, node, first, taken) {
  const label = node.k === 0 ? gettext("start") : node.x === null ? String(node.n) : `${node.n} · ${times(node)}`;
  const best = node.n === tree.scene.best;
  ctx.font = `${first ? "600 " : ""}11px ${tree.colours.font}`;
  const gap = radius(tree.view, node) + (best || node.n === tree.selected ? 9 : 5);
  const wide = ctx.measureText(label).width;
  const side = { x: x + gap, y };
  const above = { x: x - wide / 2, y: y - gap - 5 };
  const below = { x: x - wide / 2, y: y + gap + 6 };
  const tries = tree.scene.childrenOf(node.n).length ? [above, below] : [side, above];
  const free = (at) => taken.free(at.x - 1, at.y - 5, at.x + wide + 1, at.y + 5);
  const at = tries.find(free) || (first ? tries[0] : null);
  if (!at) return 0;
  taken.add(at.x - 1, at.y - 5, at.x + wide + 1, at.y + 5);
  ctx.textAlign = "left";
  ctx.strokeStyle = tree.colours.surface;
  ctx.lineWidth = 4;
  ctx.strokeText(label, at.x, at.y);
  ctx.fillStyle = best ? tree.colours.best : first ? tree.colours.text : node.x === null ? tree.colours.faint : tree.colours.soft;
  ctx.fillText(label, at.x, at.y);
  return 1;
}

// Rectangles already drawn on, in coarse cells, so that asking is cheap.
class Taken {
  constructor() {
    this.cells = new Map();
  }

  each(x0, y0, x1, y1, visit) {
    for (let cx = Math.floor(x0 / 64); cx <= Math.floor(x1 / 64); cx += 1) {
      for (let cy = Math.floor(y0 / 32); cy <= Math.floor(y1 / 32); cy += 1) {
        if (visit(cx * 65536 + cy)) return true;
      }
    }
    return false;
  }

  add(...box) {
    this.each(...box, (key) => {
      if (!this.cells.has(key)) this.cells.set(key, []);
      this.cells.get(key).push(box);
      return false;
    });
  }

  free(x0, y0, x1, y1) {
    const hit = ([a, b, c, d]) => a < x1 && c > x0 && b < y1 && d > y0;
    return !this.each(x0, y0, x1, y1, (key) => (this.cells.get(key) || []).some(hit));
  }
}
