// The theme's colours as a canvas understands them: custom properties keep light-dark() as it was written.

// From {key: "--property"} to {key: "rgb(...)"}, as `element` would show them now.
export function coloursOf(element, properties) {
  const probe = document.createElement("span");
  probe.hidden = true;
  element.append(probe);
  const css = getComputedStyle(probe);
  const colours = {};
  for (const [key, property] of Object.entries(properties)) {
    probe.style.color = `var(${property})`;
    colours[key] = css.color;
  }
  probe.remove();
  return colours;
}

export function fontOf(element) {
  return getComputedStyle(element).getPropertyValue("--font").trim();
}
