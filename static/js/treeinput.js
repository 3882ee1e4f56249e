// What pointer and wheel do to the tree: drag pans, two fingers and Ctrl + wheel zoom, a click chooses, resting tells.

import { tipLines } from "./treemarks.js";
import { clamp } from "./treeview.js";

const CLICK = 4; // px a pointer may move and still click
export const REACH = { choose: 14, hover: 12 }; // px around a node that count as the node

export function listen(tree) {
  const { canvas } = tree;
  const pointers = new Map();
  let moved = 0;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return; // the menu's
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const held = pointers.get(event.pointerId);
    if (!held) return hover(tree, event.offsetX, event.offsetY);
    const dx = event.offsetX - held.x;
    const dy = event.offsetY - held.y;
    moved += Math.abs(dx) + Math.abs(dy);
    if (pointers.size === 2) pinch(tree, pointers, event);
    else if (moved > CLICK) tree.pan(dx, dy);
    if (moved > CLICK || pointers.size === 2) pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    return undefined;
  });
  const up = (event) => {
    if (!pointers.delete(event.pointerId)) return;
    if (event.type === "pointerup" && moved <= CLICK) choose(tree, event.offsetX, event.offsetY);
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => hover(tree, -1e6, -1e6));
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
      event.preventDefault();
      tree.zoom(Math.exp(-event.deltaY * 0.004), event.offsetX, event.offsetY);
    },
    { passive: false },
  );
}

function pinch(tree, pointers, event) {
  const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
  const held = pointers.get(event.pointerId);
  const before = Math.hypot(held.x - other.x, held.y - other.y);
  const now = Math.hypot(event.offsetX - other.x, event.offsetY - other.y);
  if (before > 10) tree.zoom(now / before, (other.x + event.offsetX) / 2, (other.y + event.offsetY) / 2);
}

function choose(tree, x, y) {
  const n = tree.places.nearest(tree.view, x, y, REACH.choose);
  if (n !== null) tree.dispatchEvent(new CustomEvent("choose", { detail: n }));
}

function hover(tree, x, y) {
  const n = tree.places.nearest(tree.view, x, y, REACH.hover);
  if (n === tree.hovered) return;
  tree.hovered = n;
  tree.canvas.classList.toggle("over-node", n !== null);
  showTip(tree);
  tree.draw();
}

function showTip({ tip, view, scene, places, labels, hovered }) {
  const node = hovered === null ? null : scene.by.get(hovered);
  tip.hidden = !node;
  if (!node) return;
  const { x, y } = view.screen(places.get(node.n));
  tip.replaceChildren(...tipLines(scene, node, labels));
  const left = x + 14 + tip.offsetWidth > view.width ? x - 14 - tip.offsetWidth : x + 14;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${clamp(y - 10, 4, view.height - tip.offsetHeight - 4)}px`;
}
