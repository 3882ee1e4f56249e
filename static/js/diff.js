// Differences: folds that open in place, and h/H from one change to the next. Every fold is a link that works without it.

import { followed, keysAreOn, typing } from "./keys.js";

let here = null;

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-fold]");
  if (!link || event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  const id = link.dataset.fold;
  const scroll = link.closest(".code")?.scrollTop;
  const done = window.htmx.ajax("GET", link.href, { target: `#${id}`, swap: "outerHTML", select: `#${id}` });
  done.then(() => {
    const same = document.getElementById(link.id);
    const box = same?.closest(".code");
    if (box && scroll !== undefined) box.scrollTop = scroll;
    same?.focus({ preventScroll: true });
  });
});

// The next or the previous change, from the one that was gone to last.
function toHunk(step) {
  const hunks = [...document.querySelectorAll("[data-hunk]")];
  if (!hunks.length) return;
  const at = hunks.indexOf(here);
  const next = at < 0 ? (step > 0 ? 0 : hunks.length - 1) : Math.min(Math.max(at + step, 0), hunks.length - 1);
  here?.classList.remove("is-here");
  here = hunks[next];
  here.classList.add("is-here");
  here.scrollIntoView({ block: "center", inline: "nearest" });
}

// The panel was fetched anew: the change that was gone to is still the one. Settling, a moment later, gives an element
// the class back that it came with.
for (const kind of ["htmx:afterSwap", "htmx:afterSettle"]) {
  document.addEventListener(kind, () => {
    if (!here) return;
    if (!here.isConnected) here = document.getElementById(here.id);
    here?.classList.add("is-here");
  });
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !keysAreOn() || typing(event.target)) return;
  if (document.querySelector("dialog[open]") || followed(event)) return;
  if (event.key === "h") toHunk(1);
  else if (event.key === "H") toHunk(-1);
});
