// Ticks for a comparison: at most four, kept while the list renews itself.

const MOST = 4;
const ticked = new Set();
const form = document.getElementById("compare");
const note = document.getElementById("compare-note");
const boxes = () => [...document.querySelectorAll('#runs input[name="k"]')];

function show() {
  for (const box of boxes()) {
    box.checked = ticked.has(box.value);
    box.disabled = !box.checked && ticked.size >= MOST;
  }
  form.querySelector("button").disabled = ticked.size < 2;
  note.textContent = ticked.size ? `${ticked.size} of at most ${MOST} ticked` : "Tick the best kernels of two to four searches.";
}

if (form) {
  for (const box of boxes()) if (box.checked) ticked.add(box.value); // the browser may restore them
  show();
  document.addEventListener("change", (event) => {
    if (!event.target.matches('#runs input[name="k"]')) return;
    if (event.target.checked) ticked.add(event.target.value);
    else ticked.delete(event.target.value);
    show();
  });
  document.addEventListener("htmx:afterSwap", show);
  window.addEventListener("pageshow", show);
}
