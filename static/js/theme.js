// Sets the remembered theme before the first paint, so it is a plain blocking script, not a module.
(() => {
  "use strict";
  const KEY = "adaexplore-theme";
  const root = document.documentElement;
  root.classList.add("js"); // styles may hide what only helps without scripts

  function remembered() {
    try {
      const value = localStorage.getItem(KEY);
      return value === "light" || value === "dark" ? value : "system";
    } catch {
      return "system"; // storage is blocked: the system's choice stands
    }
  }

  function apply(value) {
    if (value === "system") delete root.dataset.theme;
    else root.dataset.theme = value;
    for (const input of document.querySelectorAll("[data-theme-switch] input")) {
      input.checked = input.value === value;
    }
    root.dispatchEvent(new CustomEvent("adaexplore:theme", { bubbles: true, detail: value }));
  }

  apply(remembered());
  document.addEventListener("DOMContentLoaded", () => apply(remembered()));
  window.addEventListener("storage", (event) => event.key === KEY && apply(remembered()));
  document.addEventListener("change", (event) => {
    const input = event.target;
    if (!(input instanceof HTMLInputElement) || !input.closest("[data-theme-switch]")) return;
    try {
      localStorage.setItem(KEY, input.value);
    } catch {
      // not remembered, still applied
    }
    apply(input.value);
  });
})();
