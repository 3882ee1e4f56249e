// The list of winners by key: j/k walk its rows, Shift D takes the kernel of one home. Ticks and copying have buttons, too.

import "./copy.js";
import "./ticks.js";
import { followed, keysAreOn, typing } from "./keys.js";

const rows = () => [...document.querySelectorAll("tr[data-row]")];
const current = () => document.activeElement?.closest("tr[data-row]") || document.querySelector("tr.is-row");

function walk(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(current());
  const next = all[at < 0 ? 0 : Math.min(Math.max(at + step, 0), all.length - 1)];
  next.querySelector("[data-row-link]").focus();
}

document.addEventListener("focusin", (event) => {
  const row = event.target.closest("tr[data-row]");
  for (const other of rows()) other.classList.toggle("is-row", other === row);
});

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector("dialog[open]") || typing(event.target) || !keysAreOn() || followed(event)) return;
  if (event.key === "j") walk(1);
  else if (event.key === "k") walk(-1);
  else if (event.key === "D") (current() || rows()[0])?.querySelector("[data-row-download]")?.click();
});
