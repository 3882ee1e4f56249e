// What this page's forms can do, by the registry that the server puts on every page: found, listed, performed.

const holder = document.getElementById("commands");
export const commands = holder ? JSON.parse(holder.textContent) : { go: {}, places: [], acts: [], find: "" };

// The form of an act, with the button that sends it; null where the page has none now.
export function doorOf(act) {
  for (const form of forms()) {
    const path = new URL(form.action, location.href).pathname;
    const fits = act.url.split("/").length > 2 ? path === act.url : path.endsWith(act.url);
    if (!fits) continue;
    const button = buttonOf(form, act.fields);
    if (button) return { form, button };
  }
  return null;
}

// The chosen card's forms come first: a page may hold one form for each of many rows.
function forms() {
  const all = [...document.querySelectorAll('main form[method="post"]')].filter((form) => !form.closest("[hidden]"));
  const chosen = (form) => form.closest(".is-current, tr.is-row") !== null;
  return [...all.filter(chosen), ...all.filter((form) => !chosen(form))];
}

function buttonOf(form, fields) {
  const buttons = [...form.querySelectorAll("button:not([type=button]):not([disabled])")];
  let fitting = buttons;
  for (const [name, value] of Object.entries(fields)) {
    const field = form.querySelector(`input[name="${CSS.escape(name)}"]`);
    if (field && field.value === value) continue;
    fitting = fitting.filter((button) => button.name === name && button.value === value);
  }
  return fitting[0] || null;
}

// An act on a node is sent with the number that stands there; everything else is to be typed or chosen first, but what
// may stay empty.
function asks(input, act) {
  if (act.tree && input.matches("input[type=number]")) return input.value === "" || !input.checkValidity();
  if (input.matches("[data-optional]")) return false;
  return input.matches("textarea, select, input:not([type=hidden], [type=checkbox], [type=radio])");
}

// Sends a form that asks for nothing; where something is to be typed, leads to the field instead.
export function perform(act) {
  const asked = new CustomEvent("perform", { detail: act, cancelable: true });
  if (!document.dispatchEvent(asked)) return true; // the page does it in its own way
  return send(act);
}

// The same by the form that is on the page now.
export function send(act) {
  const door = doorOf(act);
  if (!door) return false;
  for (let part = door.form.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  const field = [...door.form.elements].find((input) => asks(input, act));
  if (field) {
    field.focus();
    if (field.select) field.select();
  } else door.button.click();
  return true;
}
