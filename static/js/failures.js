// Keys of the pages of failures: j and k move over clusters, m mutes one, y goes to its rule. All works without it.

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

function move(step) {
  const links = [...document.querySelectorAll("[data-cluster]")];
  if (!links.length) return;
  const at = links.indexOf(document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + step));
  links[next].focus();
}

let chord = 0; // "g" begins an address: the next key is the shell's

document.addEventListener("keydown", (event) => {
  if (!(event.target instanceof Element) || quiet(event)) return;
  const inChord = performance.now() < chord;
  chord = event.key === "g" && !inChord ? performance.now() + 1200 : 0;
  if (inChord || event.key === "g") return;
  if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === "m") document.querySelector('[data-act="mute"]')?.click();
  else if (event.key === "y") {
    const field = document.querySelector('[data-act="propose"]');
    if (!field) return;
    event.preventDefault();
    field.focus();
    field.select();
  }
});
