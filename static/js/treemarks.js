// Shapes of the nodes, taken from the legend, their sizes, and the lines of the tip.

import { text as measureText } from "./measure.js";
import { handsOn, isPruned } from "./store.js";
import { gettext, interpolate, ngettext } from "./texts.js";
import { clamp } from "./treeview.js";

export const CIRCLE = new Path2D("M6 2a4 4 0 1 1 0 8 4 4 0 1 1 0-8z");

// The legend's own marks are the shapes on the canvas, so the two cannot differ.
export function shapesFrom(legend) {
  const shapes = new Map();
  for (const entry of legend.querySelectorAll("[data-style]")) {
    const svg = entry.querySelector("svg");
    shapes.set(entry.dataset.style, {
      path: new Path2D(svg.querySelector("path").getAttribute("d")),
      line: svg.classList.contains("mark-line"),
    });
  }
  return shapes;
}

// Half the size of a mark in px: grows with log2 of the speedup.
export function radius(view, node) {
  const base = clamp(view.sy * 0.34, 2.4, 6);
  if (node.k === 0) return base * 0.8;
  if (node.x === null) return base * 0.86;
  return base * clamp(1 + 0.16 * Math.log2(node.x), 0.75, 1.6);
}

export function tipLines(scene, node, labels) {
  const line = (content, name) => {
    const made = document.createElement("p");
    made.textContent = content;
    if (name) made.className = name;
    return made;
  };
  const kind = [gettext("start"), gettext("large step"), gettext("small step")][node.k];
  const title = node.k === 0 ? gettext("Start") : interpolate(gettext("Node %(number)s"), { number: node.n });
  const lines = [line(title, "tip-title"), line(`${labels[node.style]} · ${kind}`)];
  const measure = measureText(node);
  if (measure) lines.push(line(measure, "mono"));
  if (node.r) lines.push(line(node.r, "mono"));
  if (node.d) lines.push(line(node.d));
  const hands = handsOn(node).map(([label]) => label);
  if (scene.faded.has(node.n) && !isPruned(node)) hands.unshift(gettext("below a pruned node"));
  if (hands.length) lines.push(line(hands.join(", ")));
  const below = scene.childrenOf(node.n).length;
  if (below) lines.push(line(interpolate(ngettext("%(count)s child", "%(count)s children", below), { count: below }), "tip-soft"));
  return lines;
}
