// The offer to undo what was just done: ten seconds, longer while it has the focus or the pointer. Activity keeps it.

import { gettext, interpolate } from "./texts.js";

const SHOWN_MS = 10_000;
const timers = new WeakMap();

const toasts = () => [...document.querySelectorAll(".undo-toast")];

// `undo` is called by the button; without it the button posts to `url` with `key`. `place` holds the toast.
export function offerUndo({ text, label = gettext("Undo"), url = "", key = "", undo = null, place = document.getElementById("messages") }) {
  const toast = document.createElement("div");
  toast.className = "notice notice-success undo-toast";
  toast.setAttribute("role", "status");
  const sentence = document.createElement("span");
  sentence.textContent = text;
  const button = document.createElement("button");
  button.className = "button button-compact";
  button.dataset.undo = "";
  button.append(`${label} `, Object.assign(document.createElement("kbd"), { textContent: "u" }));
  if (undo) {
    button.type = "button";
    button.addEventListener("click", () => undo());
    toast.append(sentence, button);
  } else {
    toast.append(sentence, formOf(url, key, button));
  }
  place.replaceChildren(toast);
  start(toast);
}

function formOf(url, key, button) {
  const form = document.createElement("form");
  form.method = "post";
  form.action = url;
  for (const [name, value] of Object.entries({ csrfmiddlewaretoken: token(), key, back: location.pathname + location.search })) {
    form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
  }
  form.append(button);
  return form;
}

function token() {
  return document.querySelector('input[name="csrfmiddlewaretoken"]')?.value || "";
}

// A toast lies over the page; where it is in use it stays.
function start(toast) {
  if (timers.has(toast)) return;
  toast.classList.add("is-toast");
  const again = () => {
    clearTimeout(timers.get(toast));
    timers.set(toast, setTimeout(() => end(toast), SHOWN_MS));
  };
  const hold = () => clearTimeout(timers.get(toast));
  toast.addEventListener("focusin", hold);
  toast.addEventListener("pointerenter", hold);
  toast.addEventListener("focusout", again);
  toast.addEventListener("pointerleave", () => !toast.contains(document.activeElement) && again());
  again();
}

function end(toast) {
  if (toast.contains(document.activeElement) || toast.matches(":hover")) return;
  toast.remove();
}

// Undo by key: the newest offer. False where there is none.
export function undoNewest() {
  const button = toasts().at(-1)?.querySelector("[data-undo]");
  if (button) button.click();
  return Boolean(button);
}

// In the cockpit the view stays as it is: the act is taken back beside it.
document.addEventListener("submit", (event) => {
  const toast = event.target.closest(".undo-toast");
  if (!toast || !document.getElementById("cockpit") || event.defaultPrevented) return;
  event.preventDefault();
  takeBack(event.target, toast);
});

async function takeBack(form, toast) {
  const button = form.querySelector("[data-undo]");
  button.disabled = true;
  button.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(form.action, { method: "POST", body: new FormData(form), headers: { "HX-Request": "true" } });
    if (answer.status === 401) return location.assign(answer.headers.get("HX-Redirect") || "/");
    if (!answer.ok && answer.status !== 409) return tell(toast, interpolate(gettext("The server failed (%(status)s). You can also undo it in Activity."), { status: answer.status }));
    const said = await answer.json();
    tell(toast, said.said || said.refused);
    document.dispatchEvent(new CustomEvent("undone"));
  } catch {
    tell(toast, gettext("The server cannot be reached. Nothing was undone. You can undo it later in Activity."));
  }
}

function tell(toast, text) {
  toast.replaceChildren(Object.assign(document.createElement("span"), { textContent: text }));
  clearTimeout(timers.get(toast));
  timers.set(toast, setTimeout(() => end(toast), SHOWN_MS));
}

// What the server says of an act that a script has posted.
document.addEventListener("acted", (event) => offerUndo(event.detail));

// Toasts that a page came with, or that an answer has put in.
const place = document.getElementById("messages");
if (place) {
  const seen = () => toasts().forEach(start);
  new MutationObserver(seen).observe(place, { childList: true });
  seen();
}
