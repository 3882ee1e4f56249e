// Pause, resume, stop without leaving the page. The forms work by themselves; this keeps the reader's view.

import { gettext, interpolate } from "./texts.js";

const SHOWN = { pause: ["running"], resume: ["paused", "stopping", "stopped"], stop: ["running", "paused"], kill: ["stopping"] };

export function showControls(state) {
  for (const form of document.querySelectorAll("#controls form")) form.hidden = !SHOWN[form.dataset.control].includes(state);
}

export function startControls(done) {
  for (const form of document.querySelectorAll("#controls form")) {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      send(form, event.submitter, done);
    });
  }
}

async function send(form, button, done) {
  if (form.dataset.control === "stop" && !confirm(gettext("Stop this search? Kernels on a device are judged first; other steps are cancelled. The tree is kept."))) return;
  button.disabled = true;
  button.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(form.action, { method: "POST", body: new FormData(form) });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const messages = page.getElementById("messages");
    if (messages) document.getElementById("messages").replaceChildren(...messages.children);
    const fresh = page.getElementById("cockpit");
    if (fresh) {
      showControls(fresh.dataset.state);
      renewKeys(page);
    }
    if (!answer.ok) say(interpolate(gettext("The server refused (%(status)s). Reload the page and try again."), { status: answer.status }));
  } catch {
    say(gettext("The server did not respond, so the change may not have been made. Reload the page and try again."));
  } finally {
    button.disabled = false;
    button.removeAttribute("aria-busy");
    done();
  }
}

// Each form carries a key that makes a repeated submit one action; the next action needs the next key.
function renewKeys(page) {
  for (const form of document.querySelectorAll("#controls form")) {
    const fresh = page.querySelector(`#controls form[data-control="${form.dataset.control}"] input[name="key"]`);
    if (fresh) form.querySelector('input[name="key"]').value = fresh.value;
  }
}

function say(text) {
  const note = document.createElement("p");
  note.className = "notice notice-error";
  note.setAttribute("role", "alert");
  note.textContent = text;
  document.getElementById("messages").replaceChildren(note);
}
