// Buttons that copy a line or the source shown. Without a clipboard they stay hidden: the text can be selected.

import { gettext } from "./texts.js";

const SAID_MS = 2000;

// Hidden characters are copied as the code points that stand for them: what is seen is what is taken.
function textOf(button) {
  if (button.dataset.copy) return button.dataset.copy;
  const lines = [...button.closest(".node-body").querySelectorAll(".code:not(.diff) .lc")];
  return lines.map((line) => line.textContent).join("\n") + "\n";
}

function offer() {
  for (const button of document.querySelectorAll("[data-copy], [data-copy-code]")) button.hidden = !navigator.clipboard;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy], [data-copy-code]");
  if (!button) return;
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(textOf(button));
    button.textContent = gettext("Copied");
  } catch {
    button.textContent = gettext("Copying failed: select the text");
  }
  setTimeout(() => { button.textContent = label; }, SAID_MS);
});
document.addEventListener("htmx:afterSwap", offer);
offer();
