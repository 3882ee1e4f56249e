// What a page must be, asked from inside it. Each function returns sentences about what is wrong, none when all is well.

window.look = (() => {
  const FOCUSABLE = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]:not([tabindex='-1'])";
  const MOST = 60; // elements of a page whose focus is looked at; more of them are rows of a table

  const SWAGGER = new Set(["nested-interactive", "button-name", "select-name"]); // what Swagger UI's markup breaks, whatever the page does

  function name(element) {
    const id = element.id ? `#${element.id}` : "";
    const classes = typeof element.className === "string" && element.className ? `.${element.className.trim().replace(/\s+/g, ".")}` : "";
    return `${element.tagName.toLowerCase()}${id}${classes} "${(element.textContent || "").trim().slice(0, 30)}"`;
  }

  // Title, heading, and what moves although the reader asked for stillness.
  function once() {
    const wrong = [];
    if (!document.title.trim()) wrong.push("no title");
    const headings = [...document.querySelectorAll("h1")].filter((heading) => heading.checkVisibility());
    if (headings.length !== 1) wrong.push(headings.length ? `${headings.length} h1` : "no h1");
    for (const animation of document.getAnimations()) {
      if (animation.playState === "running") wrong.push(`moves: ${name(animation.effect.target)}`);
    }
    const longest = (list) => Math.max(...list.split(",").map((one) => parseFloat(one) * (one.includes("ms") ? 1 : 1000)));
    const moving = [...document.querySelectorAll("body *")].filter((element) => {
      const style = getComputedStyle(element);
      return longest(style.transitionDuration) > 10 || (style.animationName !== "none" && longest(style.animationDuration) > 10);
    });
    if (moving.length) wrong.push(`moves under reduced motion: ${moving.length} elements, ${name(moving[0])}`);
    return wrong;
  }

  // What decides the contrast of each text: colour, size, ground, and what lifts it over others. What another page had needs no second look.
  function paints() {
    const grounds = new Map();
    function ground(element) {
      if (!element) return "";
      if (!grounds.has(element)) {
        const style = getComputedStyle(element);
        const own = style.backgroundColor === "rgba(0, 0, 0, 0)" ? "" : style.backgroundColor;
        const apart = ["static", "relative"].includes(style.position) ? "" : `${element.id}.${element.className}`;
        const over = `${own} ${style.backgroundImage === "none" ? "" : style.backgroundImage} ${style.opacity === "1" ? "" : style.opacity} ${apart}`.trim();
        grounds.set(element, own.startsWith("rgb(") && !apart ? over : `${over}|${ground(element.parentElement)}`);
      }
      return grounds.get(element);
    }
    const found = new Set();
    for (const element of document.querySelectorAll("body *")) {
      const says = element.matches("input, select, textarea") || [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
      if (!says || !element.checkVisibility()) continue;
      const style = getComputedStyle(element);
      const off = element.closest(":disabled, [aria-disabled=true]") ? "off" : "";
      found.add(`${off} ${style.color} ${style.fontSize} ${style.fontWeight} on ${ground(element)}`);
    }
    return [...found];
  }

  async function axe(theme, width, { rules, contrast = true } = {}) {
    const options = { resultTypes: ["violations"], iframes: false, preload: false, rules: { "target-size": { enabled: true }, "color-contrast": { enabled: contrast } }, ...(rules ? { runOnly: { type: "rule", values: rules } } : {}) };
    const found = await window.axe.run(document, options);
    // An open menu lies over what is below it, and closes when the focus leaves it.
    const menu = document.querySelector("details.menu[open]");
    for (const rule of found.violations) {
      if (menu && rule.id === "target-size") rule.nodes = rule.nodes.filter((node) => !/obscured/.test(node.any[0]?.message));
    }
    for (const rule of found.violations) {
      if (SWAGGER.has(rule.id)) rule.nodes = rule.nodes.filter((node) => !document.querySelector(node.target)?.closest(".swagger-ui"));
    }
    return found.violations.filter((rule) => rule.nodes.length).map(
      (rule) => `axe ${theme} ${width}: ${rule.id} (${rule.nodes.length}): ${rule.help}; ${rule.nodes.slice(0, 3).map((node) => `${node.target} ${node.html.slice(0, 120)} ${(node.any[0] || node.all[0] || node.none[0] || {}).message || ""}`).join(" | ")}`,
    );
  }

  // What scrolls in a box of its own may be wider; a chart gets two frames to notice the new width.
  async function reflow(width) {
    for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
    const over = document.documentElement.scrollWidth - width;
    if (over <= 0) return [];
    const boxed = (element) => element && element !== document.body && (getComputedStyle(element).overflowX !== "visible" || boxed(element.parentElement));
    const far = [...document.querySelectorAll("body *")].filter((element) => element.getBoundingClientRect().right > width + 1 && element.checkVisibility() && !boxed(element.parentElement));
    return [`${over} px wider than ${width}: ${far.slice(0, 2).map(name).join(", ")}`];
  }

  // Each element that takes the focus must look different for it and must not be hidden below something else.
  function focus() {
    const wrong = [];
    const before = document.activeElement;
    before?.blur?.();
    const dialog = document.querySelector("dialog[open]");
    const visible = [...(dialog || document).querySelectorAll(FOCUSABLE)].filter(
      (element) => !element.disabled && element.checkVisibility({ visibilityProperty: true }) && element.getClientRects().length,
    );
    for (const element of visible.slice(0, MOST)) {
      const plain = looks(element);
      element.focus({ focusVisible: true });
      if (document.activeElement !== element) continue;
      if (looks(element) === plain) wrong.push(`no visible focus: ${name(element)}`);
      else if (covered(element)) wrong.push(`covered focus: ${name(element)}`);
      element.blur();
    }
    before?.focus?.({ preventScroll: true });
    scrollTo(0, 0);
    return wrong;
  }

  // A radio or checkbox may be drawn by what follows it; a field by what holds it.
  function looks(element) {
    return [element, element.parentElement, element.nextElementSibling]
      .filter(Boolean)
      .map((one) => {
        const style = getComputedStyle(one);
        const outline = style.outlineStyle === "none" || parseFloat(style.outlineWidth) === 0 ? "none" : `${style.outlineStyle} ${style.outlineWidth} ${style.outlineColor}`;
        return `${outline} ${style.boxShadow} ${style.borderColor} ${style.backgroundColor}`;
      })
      .join("/");
  }

  function covered(element) {
    const box = element.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) return false; // drawn by its label
    const places = [0.5, 0.05, 0.95].flatMap((x) => [0.5, 0.1, 0.9].map((y) => [box.left + box.width * x, box.top + box.height * y]));
    const inside = places.filter(([x, y]) => x >= 0 && y >= 0 && x < innerWidth && y < innerHeight);
    return !inside.some(([x, y]) => {
      const top = document.elementFromPoint(x, y);
      return top && (element.contains(top) || top.contains(element) || element.closest("label")?.contains(top));
    });
  }

  return { once, axe, paints, reflow, focus };
})();
