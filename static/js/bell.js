// The bell in the bar: how many notifications are new, asked for now and then while somebody looks at the page.

import { announce } from "./announce.js";
import { gettext, interpolate } from "./texts.js";

const EVERY_MS = 30_000;
const STEP_MS = 5_000;

let asked = Date.now();

async function check(bell) {
  if (document.hidden || Date.now() - asked < EVERY_MS) return;
  asked = Date.now();
  let answer;
  try {
    const response = await fetch(bell.dataset.count, { headers: { Accept: "application/json" }, redirect: "error" });
    if (!response.ok) return;
    answer = await response.json();
  } catch {
    return; // offline, or signed out: the next check may find more
  }
  show(bell, answer);
}

function show(bell, { count, words, newest }) {
  const before = Number(bell.dataset.new);
  bell.dataset.new = String(count);
  const badge = bell.querySelector("[data-bell-count]");
  badge.textContent = words;
  badge.hidden = count === 0;
  bell.querySelector("[data-bell-words]").textContent = count ? interpolate(gettext(", %(count)s new"), { count: words }) : "";
  if (count > before && newest) announce(newest);
}

const bell = document.getElementById("bell");
if (bell) {
  setInterval(() => check(bell), STEP_MS);
  document.addEventListener("visibilitychange", () => check(bell));
}
