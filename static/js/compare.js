// Keys of the comparison: s swaps, 1-4 set the baseline. Each is a link that works without it.

import "./diff.js";
import { followed, keysAreOn, typing } from "./keys.js";

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector("dialog[open]") || typing(event.target) || !keysAreOn() || followed(event)) return;
  const link = document.querySelector(`a[data-key-here="${CSS.escape(event.key)}"]`);
  if (!link) return;
  event.preventDefault();
  link.click();
});
