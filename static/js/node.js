// Keys of the node's own page: tabs, parent, best child, comparing. Links and forms work without it.

import "./copy.js";
import "./diff.js";
import "./ticks.js";
import { followed, keysAreOn, typing } from "./keys.js";

document.addEventListener("keydown", (event) => {
  if (!(event.target instanceof Element) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector("dialog[open]") || typing(event.target) || !keysAreOn() || followed(event)) return;
  const tab = document.querySelector(`[data-tab="${CSS.escape(event.key)}"]`);
  if (tab) tab.click();
  else if (event.key === "[") document.querySelector("[data-parent] a")?.click();
  else if (event.key === "]") document.querySelector("[data-best-child] a")?.click();
  else if (event.key === "d") document.getElementById("tab-diff")?.click();
});
