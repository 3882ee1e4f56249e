// The one polite live region: at most one sentence in five seconds, whoever speaks.

const QUIET_MS = 5_000;
let spoken = 0;

export function announce(text) {
  const region = document.getElementById("announcer");
  if (!region || Date.now() - spoken < QUIET_MS) return;
  spoken = Date.now();
  region.textContent = text;
}
