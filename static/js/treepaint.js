// One picture of the tree: edges, arcs to what the prompt showed, marks by state, rings, labels.

import { handsOn, styleOf } from "./store.js";
import { paintLabels } from "./treelabels.js";
import { CIRCLE, radius } from "./treemarks.js";

const MANY = 3000; // visible nodes beyond which they are plain squares
const MANY_EDGES = 1000; // visible nodes beyond which edges are straight
const FADED = 0.35; // how much is left of what was pruned
const MARGIN = 20; // px beyond the edge where a mark may still reach into the picture
export const COLOURS = {
  surface: "--surface",
  text: "--text",
  soft: "--text-soft",
  faint: "--text-faint",
  edge: "--tree-edge",
  focus: "--focus",
  root: "--text-faint",
  best: "--state-best",
  correct: "--state-correct",
  slower: "--state-slower",
  wrong: "--state-wrong",
  "compile-error": "--state-compile-error",
  suspect: "--state-waiting",
  proposing: "--state-running",
  judging: "--state-running",
  waiting: "--state-waiting",
  cancelled: "--state-pruned",
  pruned: "--state-pruned",
  pinned: "--state-best",
  person: "--state-waiting",
};

// Draw the tree with its nodes at `spots`; returns how many of them are in the picture.
export function paint(tree, ctx, spots) {
  const { scene, view } = tree;
  ctx.clearRect(0, 0, view.width, view.height);
  const visible = scene.nodes.filter((node) => spots.has(node.n) && view.touches(spots.get(node.n), MARGIN));
  const many = visible.length > MANY;
  paintEdges(tree, ctx, spots, visible.length > MANY_EDGES);
  paintContext(tree, ctx, spots);
  if (many) paintSquares(tree, ctx, spots, visible);
  else paintMarks(tree, ctx, spots, visible);
  paintHands(tree, ctx, spots, visible);
  paintRings(tree, ctx, spots);
  paintLabels(tree, ctx, spots, visible);
  return visible.length;
}

// Of many edges, straight hair lines without dashes are all that can be seen, and the drawing of curves is what costs.
function paintEdges({ scene, view, colours }, ctx, spots, many) {
  const paths = { large: new Path2D(), small: new Path2D(), spine: new Path2D() };
  const below = view.height + MARGIN;
  const right = view.width + MARGIN;
  for (const node of scene.nodes) {
    const b = spots.get(node.n);
    const a = spots.get(node.p);
    if (!a || !b || (a.y < -MARGIN && b.y < -MARGIN) || (a.y > below && b.y > below)) continue;
    if ((a.x < -MARGIN && b.x < -MARGIN) || (a.x > right && b.x > right)) continue;
    const spine = scene.spine.has(node.n);
    const path = spine ? paths.spine : node.k === 1 || many ? paths.large : paths.small;
    const bend = a.x + (b.x - a.x) * 0.5;
    path.moveTo(a.x, a.y);
    if (many) path.lineTo(b.x, b.y);
    else path.bezierCurveTo(bend, a.y, bend, b.y, b.x, b.y);
  }
  ctx.strokeStyle = colours.edge;
  if (many) {
    ctx.lineWidth = 0.5;
    ctx.stroke(paths.large);
    paths.large = new Path2D();
  }
  ctx.setLineDash([2, 2.5]);
  ctx.lineWidth = 1;
  ctx.stroke(paths.small);
  ctx.setLineDash([]);
  ctx.lineWidth = 1.25;
  ctx.stroke(paths.large);
  ctx.strokeStyle = colours.best;
  ctx.lineWidth = 2;
  ctx.stroke(paths.spine);
}

// Dashed arcs from the selected node to the kernels its prompt showed.
function paintContext({ scene, colours, selected }, ctx, spots) {
  const node = selected === null ? null : scene.by.get(selected);
  const to = node && spots.get(node.n);
  if (!to || !node.c) return;
  ctx.strokeStyle = colours.focus;
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

function paintMarks(tree, ctx, spots, visible) {
  const groups = Map.groupBy(visible, (node) => styleOf(tree.scene, node));
  const order = [...groups].sort(([a], [b]) => (a === "best") - (b === "best")); // records on top
  for (const [style, nodes] of order) {
    const { true: faded = [], false: plain = [] } = Object.groupBy(nodes, (node) => tree.scene.faded.has(node.n));
    ctx.globalAlpha = FADED;
    paintStyle(tree, ctx, spots, style, faded);
    ctx.globalAlpha = 1;
    paintStyle(tree, ctx, spots, style, plain);
  }
}

// What people did, as small marks of the legend at the lower left of a node: pruned, pinned, a person's hand.
function paintHands({ view, colours, shapes }, ctx, spots, visible) {
  const size = view.sy > 12 ? 9 : 7;
  for (const node of visible) {
    if (!node.m) continue;
    const marks = new Set(handsOn(node).map(([, mark]) => mark));
    const { x, y } = spots.get(node.n);
    let left = x - radius(view, node) - size * 0.75;
    for (const mark of marks) {
      const shape = shapes.get(mark);
      if (!shape) continue;
      const scale = size / 12;
      const path = new Path2D();
      path.addPath(shape.path, new DOMMatrix([scale, 0, 0, scale, left - size / 2, y + radius(view, node) * 0.5]));
      ctx.strokeStyle = colours.surface;
      ctx.lineWidth = 3;
      ctx.stroke(path);
      ctx.strokeStyle = ctx.fillStyle = colours[mark];
      ctx.lineWidth = 1.3;
      if (shape.line) ctx.stroke(path);
      else ctx.fill(path);
      left -= size + 1;
    }
  }
}

// All nodes of one style: two paths, whatever their number.
function paintStyle({ view, colours, shapes }, ctx, spots, style, nodes) {
  const shape = shapes.get(style) || shapes.get(style === "judging" ? "proposing" : "correct");
  const round = style === "root" || style === "cancelled";
  const all = new Path2D();
  const ground = new Path2D();
  for (const node of nodes) {
    const { x, y } = spots.get(node.n);
    const r = radius(view, node);
    const scale = r / 5;
    all.addPath(round ? CIRCLE : shape.path, new DOMMatrix([scale, 0, 0, scale, x - 6 * scale, y - 6 * scale]));
    ground.moveTo(x, y);
    ground.arc(x, y, r + 1.6, 0, 2 * Math.PI);
  }
  ctx.fillStyle = colours.surface;
  ctx.fill(ground);
  const colour = colours[style] || colours.soft;
  if (shape.line || round) {
    ctx.strokeStyle = colour;
    ctx.lineWidth = view.sy > 12 ? 1.8 : 1.3;
    ctx.lineCap = "round";
    ctx.stroke(all);
    if (style === "judging") paintDots(view, ctx, spots, nodes, colour);
  } else {
    ctx.fillStyle = colour;
    ctx.fill(all);
  }
}

function paintDots(view, ctx, spots, nodes, colour) {
  ctx.fillStyle = colour;
  ctx.beginPath();
  for (const node of nodes) {
    const { x, y } = spots.get(node.n);
    ctx.moveTo(x, y);
    ctx.arc(x, y, radius(view, node) * 0.4, 0, 2 * Math.PI);
  }
  ctx.fill();
}

// One rectangle after the other: as one path of thousands they would be filled far slower.
function paintSquares({ scene, colours }, ctx, spots, visible) {
  const groups = Map.groupBy(visible, (node) => `${styleOf(scene, node)} ${scene.faded.has(node.n)}`);
  for (const nodes of groups.values()) {
    const style = styleOf(scene, nodes[0]);
    const half = style === "best" ? 3 : 2;
    ctx.globalAlpha = scene.faded.has(nodes[0].n) ? FADED : 1;
    ctx.fillStyle = colours[style] || colours.soft;
    for (const node of nodes) {
      const { x, y } = spots.get(node.n);
      ctx.fillRect(Math.round(x) - half, Math.round(y) - half, 2 * half, 2 * half);
    }
  }
  ctx.globalAlpha = 1;
}

function paintRings({ scene, view, colours, hovered, selected }, ctx, spots) {
  const ring = (n, colour, gap, width) => {
    const s = n === null ? null : spots.get(n);
    if (!s) return;
    ctx.beginPath();
    ctx.arc(s.x, s.y, radius(view, scene.by.get(n)) + gap, 0, 2 * Math.PI);
    ctx.strokeStyle = colour;
    ctx.lineWidth = width;
    ctx.stroke();
  };
  ring(scene.best, colours.best, 3.5, 1.5);
  ring(hovered, colours.soft, 4, 1);
  ring(selected, colours.focus, 5.5, 2);
}
