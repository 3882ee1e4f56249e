// Panels made by the server, swapped in place unless the reader is using them; ages that go on counting.

import { held } from "./drawer.js";
import { duration } from "./measure.js";

const waiting = new Map();

export function swap(html) {
  for (const [id, content] of Object.entries(html)) {
    const target = document.getElementById(id);
    if (!target) continue;
    if (held(target)) {
      waiting.set(id, content);
      target.dataset.updated = "";
    } else {
      put(target, content);
    }
  }
}

function put(target, content) {
  waiting.delete(target.id);
  delete target.dataset.updated;
  target.innerHTML = content;
  age(target);
}

// What was held back is put in once the reader is done with the panel.
function release() {
  for (const [id, content] of waiting) {
    const target = document.getElementById(id);
    if (target && !held(target)) put(target, content);
  }
}

function age(root = document) {
  for (const element of root.querySelectorAll("[data-age]")) {
    element.textContent = duration((Date.now() - Date.parse(element.dataset.age)) / 1000);
  }
}

export function startPanels() {
  setInterval(() => {
    if (document.hidden) return;
    if (!document.querySelector(".replaying")) age();
    release();
  }, 1000);
  document.addEventListener("selectionchange", () => waiting.size && release());
}
