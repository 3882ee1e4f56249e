// Single keys of a page's own links and buttons: `<a data-page-key="1">`.

import { followed, keysAreOn, typing } from "./keys.js";

document.addEventListener("keydown", (event) => {
  const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
  if (followed(event) || !plain || typing(event.target) || !keysAreOn() || document.querySelector("dialog[open]")) return;
  const link = document.querySelector(`main [data-page-key="${CSS.escape(event.key)}"]`);
  if (!link) return;
  event.preventDefault();
  link.click();
});
