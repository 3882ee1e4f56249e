// When a page's own single keys count: not while somebody types, not when they are switched off, not after `g`.

export const KEYS_OFF = "adaexplore-keys-off";
const CHORD_MS = 1200;
let chordUntil = 0;
let asked = null;
let answer = false;

export function keysAreOn() {
  try {
    return localStorage.getItem(KEYS_OFF) !== "1";
  } catch {
    return true;
  }
}

export function typing(target) {
  return target instanceof HTMLElement && target.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]") !== null;
}

// True for `g` and for the key after it: they lead to another page. Several listeners may ask about one event.
export function followed(event) {
  if (event === asked) return answer;
  const now = performance.now();
  const second = now < chordUntil;
  chordUntil = !second && event.key === "g" ? now + CHORD_MS : 0;
  asked = event;
  answer = second || event.key === "g";
  return answer;
}
