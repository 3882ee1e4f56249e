// A speedup with its evidence, in the same words and digits as the page's own tag: never a bare number.

import { gettext, interpolate } from "./texts.js";

const SOURCES = { measured: gettext("measured"), modelled: gettext("MODELLED"), reported: gettext("reported, not measured here") };

function digits(value, basis) {
  if (basis === "modelled") return value >= 10 ? value.toFixed(0) : value >= 0.95 ? value.toFixed(1) : value.toFixed(2);
  return value >= 100 ? value.toFixed(0) : value >= 99.95 ? value.toFixed(1) : value.toFixed(2);
}

// "2.31×": only for places that carry the basis once for all numbers in them, such as the tree and its heading.
export function times(node) {
  return `${digits(node.x, node.bs)}×`;
}

// The factor that a modelled number is within: its range reaches as far down as up, but for rounding.
function error(node) {
  if (node.bs !== "modelled" || !node.lo || !node.hi) return null;
  const [up, down] = [Math.log(node.hi / node.x), Math.log(node.x / node.lo)];
  return up > 0.001 && Math.abs(up - down) < 0.001 ? node.hi / node.x : null;
}

function range(node) {
  if (node.lo === null || node.bs === "reported") return "";
  const within = error(node);
  return within ? interpolate(gettext("within %(factor)s×"), { factor: within.toFixed(1) }) : `[${digits(node.lo, node.bs)}–${digits(node.hi, node.bs)}]`;
}

// Names of baselines by subject, as the page gives them.
function baselines() {
  return JSON.parse(document.getElementById("baselines")?.textContent ?? "{}");
}

function evidence(node) {
  const count = node.bs === "measured" && node.ns ? `n=${node.ns}` : "";
  return [range(node), count].filter(Boolean).join(" ");
}

// The speedups over eager as PyTorch ships and over the fastest baseline, where they are not the one over eager.
function beside(node) {
  const speedup = ([x, lo, hi, ns]) => {
    const other = { x, lo, hi, ns, bs: node.bs };
    return [times(other), lo && hi ? evidence(other) : ""].filter(Boolean).join(" ");
  };
  const found = [];
  if (node.h) found.push(interpolate(gettext("%(speedup)s over eager as PyTorch ships"), { speedup: speedup(node.h) }));
  if (node.f && node.w) {
    const values = { speedup: speedup(node.f), baseline: baselines()[node.w] ?? node.w };
    found.push(interpolate(gettext("%(speedup)s over the fastest baseline, %(baseline)s"), values));
  }
  return found;
}

export function parts(node) {
  if (node.x === null || !node.bs) return null;
  return { number: times(node), more: evidence(node), basis: node.bs, source: SOURCES[node.bs], beside: beside(node) };
}

export function text(node) {
  const p = parts(node);
  return p ? [[p.number, p.more, p.source].filter(Boolean).join(" "), ...p.beside].join("; ") : "";
}

// The element that the server's tag makes.
export function element(node) {
  const p = parts(node);
  if (!p) return document.createTextNode("");
  const span = (name, content) => {
    const made = document.createElement(name === "strong" ? "strong" : "span");
    if (name !== "strong") made.className = name;
    made.append(content);
    return made;
  };
  const whole = span("measure", span("strong", p.number));
  whole.append(" ", span("measure-more", p.more), " ", span(`basis basis-${p.basis}`, p.source));
  for (const words of p.beside) whole.append(" ", span("measure-beside", words));
  return whole;
}

export function duration(seconds) {
  if (seconds < 10) return `${Math.max(0, Math.floor(seconds))} s`;
  const whole = Math.round(seconds);
  const two = (n) => String(n).padStart(2, "0");
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}
