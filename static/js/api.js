// Starts Swagger UI, in the theme of the site.
const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");

function paint() {
  root.classList.toggle("dark-mode", root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
}

root.addEventListener("adaexplore:theme", paint);
system.addEventListener("change", paint);
paint();
SwaggerUIBundle({
  ...JSON.parse(document.getElementById("swagger-settings").textContent),
  dom_id: "#swagger-ui",
  presets: [SwaggerUIBundle.presets.apis],
});
