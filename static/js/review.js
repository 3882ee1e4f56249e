// The review queue by keyboard: one key an act, the next card at once, undo brings a card back to its place.
// Every act is a form that works by itself; this sends it, and shows the outcome before the answer is there.

import { followed, keysAreOn, typing } from "./keys.js";
import { gettext, interpolate } from "./texts.js";
import { offerUndo } from "./undo.js";

const HELD_MS = 45_000; // a claim lasts 60 s on the server
const AHEAD = 6; // cards kept on the page: the current one and the next five
const review = document.getElementById("review");
const undoPlace = document.getElementById("review-undo");
const past = []; // acts of this page that can be undone, the newest last
let line = Promise.resolve(); // acts reach the server in the order in which they were made
let filling = false;

const cards = () => [...review.querySelectorAll(".rule-card")];
const current = () => review.querySelector(".rule-card.is-current");

function made(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  return [...holder.content.querySelectorAll(".rule-card")];
}

function show(card, focus = true) {
  const before = current();
  if (before && before !== card) before.classList.remove("is-current");
  document.getElementById("review-empty").hidden = cards().length > 0;
  if (!card) return;
  card.classList.add("is-current");
  if (focus) {
    card.focus({ preventScroll: true });
    card.scrollIntoView({ block: "nearest" });
  }
  hold(card);
}

// Tell others whose card this is. What cannot be told keeps nobody from deciding.
async function hold(card) {
  if (!card.dataset.hold) return;
  const body = new FormData();
  body.set("csrfmiddlewaretoken", token());
  try {
    const answer = await fetch(card.dataset.hold, { method: "POST", body, headers: { "HX-Request": "true" } });
    if (!answer.ok) return;
    const { holder } = await answer.json();
    const place = card.querySelector(".rule-holder");
    if (place) place.textContent = holder ? interpolate(gettext("Held by %(holder)s"), { holder }) : "";
  } catch {
    // the next renewal tries again
  }
}

function token() {
  return document.querySelector('input[name="csrfmiddlewaretoken"]').value;
}

function step(by) {
  const all = cards();
  const at = all.indexOf(current());
  const next = all[Math.min(Math.max(at + by, 0), all.length - 1)];
  if (next && next !== current()) show(next);
  if (at + by >= all.length - 2) fill();
}

// Take the card away at once; `back` puts it where it was.
function leave(card) {
  const after = card.nextElementSibling;
  const place = { card, after, at: cards().indexOf(card) };
  const next = after || card.previousElementSibling;
  card.remove();
  show(next);
  return place;
}

function back(place, card) {
  const all = cards();
  const after = place.after && place.after.isConnected ? place.after : all[place.at] || null;
  if (place.card.isConnected) place.card.replaceWith(card);
  else review.insertBefore(card, after);
  place.card = card;
  show(card);
}

function submit(form, button) {
  const card = form.closest(".rule-card");
  if (!form.reportValidity() || card.classList.contains("is-busy")) return;
  const body = new FormData(form, button);
  const place = form.hasAttribute("data-leaves") ? leave(card) : { card, after: null, at: cards().indexOf(card) };
  const entry = { act: null, place };
  card.classList.add("is-busy");
  past.push(entry);
  line = line.then(() => send(form.action, body, entry));
  fill();
}

async function send(action, body, entry) {
  const { place } = entry;
  const answer = await post(action, body);
  place.card.classList.remove("is-busy");
  if (!answer?.ok || !answer.data.act) past.splice(past.indexOf(entry), past.includes(entry) ? 1 : 0);
  if (!answer) return back(place, place.card);
  const [fresh] = made(answer.data.card || "");
  renew(answer.data.others);
  if (fresh) {
    if (place.card.isConnected || !answer.ok) back(place, fresh);
    if (!answer.ok) openNotice(fresh);
    if (answer.data.refused) retype(fresh, body);
  } else if (place.card.isConnected) {
    leave(place.card);
  }
  if (answer.ok) {
    entry.act = answer.data.act;
    place.left = !fresh; // it waits no more
    tell(answer.data.said, entry.act);
  } else if (answer.data.refused && !fresh) {
    say(answer.data.refused);
  }
  count(answer.data.open, answer.ok && !fresh ? -1 : 0);
}

// Cards of other rules that the act has changed, such as the one merged into.
function renew(html) {
  for (const card of made(html || "")) {
    const old = document.getElementById(card.id);
    if (!old || old.classList.contains("is-busy")) continue;
    const shown = old === current();
    old.replaceWith(card);
    if (shown) show(card, false);
  }
}

function openNotice(card) {
  const notice = card.querySelector('[role="alert"]');
  if (notice) announce(notice.textContent.trim().replace(/\s+/g, " "));
}

// What was typed and refused stands in its form again, to be corrected.
function retype(card, body) {
  const asked = (form) => form.elements.act.value === body.get("act") && form.querySelector("textarea, input:not([type=hidden])");
  const form = [...card.querySelectorAll("details form[data-rule-form]")].find(asked);
  if (!form) return;
  for (const field of form.querySelectorAll("textarea, input:not([type=hidden])")) {
    if (field.type === "checkbox") field.checked = body.getAll(field.name).includes(field.value);
    else field.value = body.get(field.name) ?? field.value;
  }
  form.closest("details").open = true;
  form.querySelector("textarea, input:not([type=hidden], [type=checkbox])").focus();
}

function undo() {
  const last = past.pop() || remembered();
  if (!last) return announce(gettext("There is nothing to undo."));
  if (last.place && !last.place.card.isConnected) {
    last.place.card.classList.add("is-busy");
    back(last.place, last.place.card);
  }
  line = line.then(() => takeBack(last));
}

// The act that the page was loaded with.
function remembered() {
  const act = review.dataset.last;
  delete review.dataset.last;
  return act ? { act, place: null } : null;
}

// Runs in line: the act has had its answer by now, if only a refusal.
async function takeBack({ act, place }) {
  if (!act) return place?.card.classList.remove("is-busy");
  const body = new FormData();
  body.set("csrfmiddlewaretoken", token());
  body.set("action", act);
  const answer = await post(review.dataset.undo, body);
  if (!answer) return place && place.card.classList.remove("is-busy");
  renew(answer.data.others);
  const [fresh] = made(answer.data.card || "");
  if (answer.ok && !fresh && !answer.data.rule) return location.reload(); // a batch, an import
  const waits = fresh && place && !place.left;
  if (fresh) {
    const where = place || { card: fresh, after: review.firstElementChild, at: 0 };
    const shown = document.getElementById(fresh.id);
    if (shown) where.card = shown;
    back(where, fresh);
  } else if (place && place.card.isConnected) {
    place.card.remove();
    show(cards()[0]);
  }
  if (answer.ok) tell(answer.data.said, past.length ? past[past.length - 1].act : null);
  else say(answer.data.refused);
  count(answer.data.open, answer.ok && fresh && !waits ? 1 : 0);
}

async function post(action, body) {
  try {
    const answer = await fetch(action, { method: "POST", body, headers: { "HX-Request": "true" } });
    if (answer.status === 401) location.assign(answer.headers.get("HX-Redirect") || "/");
    else if (answer.ok || answer.status === 409 || answer.status === 422) return { ok: answer.ok, data: await answer.json() };
    else say(answer.status === 403 ? gettext("Your account cannot decide rules, or the page is out of date. Reload the page.") : interpolate(gettext("The server failed (%(status)s). Nothing was changed; try again."), { status: answer.status }));
  } catch {
    say(gettext("The server cannot be reached. Nothing was changed; try again."));
  }
  return null;
}

async function fill() {
  if (filling || cards().length >= AHEAD) return;
  filling = true;
  try {
    for (let seen = null; seen !== line; ) await (seen = line); // what was decided is no longer in the queue
    const here = cards().map((card) => card.dataset.rule).join(",");
    const url = new URL(review.dataset.cards, location.href);
    url.searchParams.set("not", here);
    const answer = await fetch(url, { headers: { "HX-Request": "true" } });
    if (!answer.ok) return;
    for (const card of made(await answer.text())) {
      if (!document.getElementById(card.id)) review.append(card);
    }
    if (!current()) show(cards()[0], false);
    document.getElementById("review-empty").hidden = cards().length > 0;
  } catch {
    // the next decision asks again
  } finally {
    filling = false;
  }
}

function tell(text, act) {
  if (act) return offerUndo({ text, undo, place: undoPlace });
  const notice = document.createElement("p");
  notice.className = "notice undo-line";
  notice.textContent = text;
  undoPlace.replaceChildren(notice);
}

function say(text) {
  const notice = document.createElement("p");
  notice.className = "notice notice-error";
  notice.setAttribute("role", "alert");
  notice.textContent = text;
  document.getElementById("messages").replaceChildren(notice);
}

function announce(text) {
  document.getElementById("announcer").textContent = text;
}

// All that wait, in the navigation; those of the filter, above the cards.
function count(open, by) {
  if (open === undefined) return;
  const badge = document.getElementById("open-reviews");
  if (badge) badge.textContent = open;
  const left = document.querySelector("[data-left]");
  left.textContent = Math.max(Number(left.textContent) + by, 0);
}

// Keys. In an open reject part the digits are reasons, elsewhere they are scopes.
function onKey(event) {
  if (event.defaultPrevented) return;
  if (event.ctrlKey && event.key === "Enter" && event.target.closest("form[data-rule-form]")) {
    event.preventDefault();
    return event.target.closest("form").requestSubmit();
  }
  const card = current();
  if (event.key === "Escape" && card) return closeParts(card);
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || !keysAreOn() || followed(event)) return;
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "u") undo();
  else if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
  else if (!card || !press(card, event.key)) return;
  event.preventDefault();
}

function press(card, key) {
  const reason = card.querySelector(`details[data-part="r"][open] [data-reason="${CSS.escape(key)}"]`);
  const button = reason || card.querySelector(`[data-act-key="${CSS.escape(key)}"]`);
  if (button) {
    if (!button.disabled) button.form.requestSubmit(button);
    return true;
  }
  const part = card.querySelector(`details[data-part="${CSS.escape(key)}"]`);
  if (!part) return false;
  const open = !part.open;
  closeParts(card);
  part.open = open;
  if (open && key !== "r") part.querySelector("textarea, input:not([type=hidden])")?.focus();
  return true;
}

function closeParts(card) {
  for (const part of card.querySelectorAll("details[data-part][open]")) part.open = false;
  if (typing(document.activeElement)) card.focus({ preventScroll: true });
}

document.addEventListener("keydown", onKey);
review.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-rule-form]")) return;
  event.preventDefault();
  submit(event.target, event.submitter);
});
review.addEventListener("click", (event) => {
  const card = event.target.closest(".rule-card");
  if (card && card !== current() && !event.target.closest("a, button, summary, input, textarea")) show(card);
});
undoPlace.addEventListener("submit", (event) => {
  event.preventDefault();
  undo();
});
setInterval(() => {
  if (!document.hidden && current()) hold(current());
}, HELD_MS);

show(cards().find((card) => !card.querySelector(".rule-holder").textContent.trim()) || cards()[0], false);
