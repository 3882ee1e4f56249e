// Drag and drop onto the upload form. Without scripts the form has its own button.

const zone = (target) => (target instanceof Element ? target.closest("[data-dropzone]") : null);

function carriesFiles(event) {
  return event.dataTransfer && [...event.dataTransfer.types].includes("Files");
}

document.addEventListener("dragover", (event) => {
  if (!carriesFiles(event)) return;
  event.preventDefault(); // a file dropped beside the zone must not replace the page
  const over = zone(event.target);
  for (const form of document.querySelectorAll("[data-dropzone]")) form.classList.toggle("is-over", form === over);
});

document.addEventListener("dragleave", (event) => {
  if (event.relatedTarget === null) for (const form of document.querySelectorAll(".is-over")) form.classList.remove("is-over");
});

document.addEventListener("drop", (event) => {
  if (!carriesFiles(event)) return;
  event.preventDefault();
  const form = zone(event.target) ?? document.querySelector("[data-dropzone]");
  if (!form) return;
  form.classList.remove("is-over");
  send(form, event.dataTransfer.files);
});

document.addEventListener("change", (event) => {
  const form = zone(event.target);
  if (form && event.target.type === "file" && event.target.files.length) form.requestSubmit();
});

function send(form, files) {
  if (!files.length) return;
  const one = new DataTransfer();
  one.items.add(files[0]); // a search has one module
  form.querySelector('input[type="file"]').files = one.files;
  form.requestSubmit();
}
