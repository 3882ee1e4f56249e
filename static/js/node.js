// Keys of the node's own page: tabs, parent, hunks. Links and forms work without it.

function quiet(event) {
  return event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")
    || event.target.closest("input, textarea, select, [contenteditable]") || keysAreOff();
}

function keysAreOff() {
  try {
    return localStorage.getItem("adaexplore-keys-off") === "1";
  } catch {
    return false;
  }
}

function toHunk(step) {
  const hunks = [...document.querySelectorAll("[data-hunk]")];
  const edge = 120; // below the sticky bar
  const tops = hunks.map((hunk) => hunk.getBoundingClientRect().top - edge);
  const next = step > 0 ? tops.findIndex((top) => top > 4) : tops.findLastIndex((top) => top < -4);
  if (next >= 0) window.scrollBy({ top: tops[next] });
}

document.addEventListener("keydown", (event) => {
  if (!(event.target instanceof Element) || quiet(event)) return;
  const tab = document.querySelector(`[data-tab="${CSS.escape(event.key)}"]`);
  if (tab) tab.click();
  else if (event.key === "h") toHunk(1);
  else if (event.key === "H") toHunk(-1);
  else if (event.key === "[") document.querySelector(".node-head .node-link")?.click();
});
