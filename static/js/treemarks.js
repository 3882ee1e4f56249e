// Shapes of the nodes, taken from the legend, their sizes, and the lines of the tip.

import { text as measureText } from "./measure.js";
import { handsOn } from "./store.js";
import { clamp } from "./treeview.js";

export const CIRCLE = new Path2D("M6 2a4 4 0 1 1 0 8 4 4 0 1 1 0-8z");

// The legend's own marks are the shapes on the canvas, so the two cannot differ.
export function shapesFrom(legend) {
  const shapes = new Map();
  for (const entry of legend.querySelectorAll("[data-look]")) {
    const svg = entry.querySelector("svg");
    shapes.set(entry.dataset.look, {
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

export function tipLines(scene, node, words) {
  const line = (content, name) => {
    const made = document.createElement("p");
    made.textContent = content;
    if (name) made.className = name;
    return made;
  };
  const kind = node.k === 0 ? "start" : node.k === 1 ? "large step" : "small step";
  const lines = [line(node.k === 0 ? "Start" : `Node ${node.n}`, "tip-title"), line(`${words[node.look]} · ${kind}`)];
  const measure = measureText(node);
  if (measure) lines.push(line(measure, "mono"));
  if (node.r) lines.push(line(node.r, "mono"));
  if (node.d) lines.push(line(node.d));
  const hands = handsOn(node).map(([word]) => word);
  if (scene.faded.has(node.n) && !hands.includes("pruned")) hands.unshift("below a pruned node");
  if (hands.length) lines.push(line(hands.join(", ")));
  const below = scene.childrenOf(node.n).length;
  if (below) lines.push(line(`${below} ${below === 1 ? "child" : "children"}`, "tip-soft"));
  return lines;
}
