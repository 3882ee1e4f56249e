// Keys of a cluster's page: m mutes it, y goes to its rule. All works without it; j and k are the shell's.

import { followed, keysAreOn, typing } from "./keys.js";

function quiet(event) {
  return event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") || typing(event.target) || !keysAreOn() || followed(event);
}

document.addEventListener("keydown", (event) => {
  if (!(event.target instanceof Element) || quiet(event)) return;
  if (event.key === "m") document.querySelector('[data-act="mute"]')?.click();
  else if (event.key === "y") {
    const field = document.querySelector('[data-act="propose"]');
    if (!field) return;
    event.preventDefault();
    field.focus();
    field.select();
  }
});
