// Shows a search as it was at any earlier moment. Live frames go on arriving meanwhile; only the picture stands still.

import { gettext, interpolate } from "./texts.js";

export class Replay extends EventTarget {
  constructor({ root, load }) {
    super();
    this.root = root;
    this.load = load;
    this.bar = root.querySelector(".replay-on");
    this.range = root.querySelector("#replay-at");
    this.place = root.querySelector("#replay-word");
    this.speed = root.querySelector("#replay-speed");
    this.toggle = root.querySelector('[data-do="replay"]');
    this.playButton = root.querySelector('[data-do="replay-play"]');
    this.range.addEventListener("input", () => this.go(Number(this.range.value)));
    root.hidden = false;
  }

  get playing() {
    return Boolean(this.timer);
  }

  get on() {
    return this.data !== undefined;
  }

  // What the store needs to show the moment; null when live.
  get moment() {
    return this.on ? { at: this.at, born: this.data.born, ended: this.data.ended } : null;
  }

  async open(at = null) {
    const answer = await this.load();
    if (!answer) return;
    const born = {};
    const ended = {};
    answer.n.forEach((n, i) => {
      born[n] = answer.born[i];
      ended[n] = answer.ended[i];
    });
    this.data = { born, ended };
    this.unit = answer.unit;
    this.head = answer.head;
    this.stops = [...new Set([...answer.born, ...answer.ended].filter((stop) => stop !== null))].sort((a, b) => a - b);
    this.range.max = answer.head;
    this.bar.hidden = false;
    this.toggle.setAttribute("aria-pressed", "true");
    this.go(at === null ? answer.head : Math.min(at, answer.head));
  }

  close() {
    this.stop();
    this.data = undefined;
    this.bar.hidden = true;
    this.toggle.setAttribute("aria-pressed", "false");
    this.dispatchEvent(new Event("moved"));
  }

  go(at) {
    this.at = Math.max(0, Math.min(at, this.head));
    this.range.value = this.at;
    const text = this.unit === "event" ? gettext("event %(at)s of %(head)s") : gettext("step %(at)s of %(head)s");
    this.place.textContent = interpolate(text, this);
    this.dispatchEvent(new Event("moved"));
  }

  step(by) {
    const next = by > 0 ? this.stops.find((stop) => stop > this.at) : this.stops.findLast((stop) => stop < this.at);
    if (next === undefined) return false;
    this.go(next);
    return true;
  }

  play() {
    if (this.timer) return this.stop();
    if (this.at >= this.head) this.go(0);
    this.playButton.textContent = gettext("Pause");
    this.place.setAttribute("aria-live", "off"); // eight times a second is no message
    const tick = () => {
      if (!this.step(1)) return this.stop();
      this.timer = setTimeout(tick, 1000 / Number(this.speed.value));
      return undefined;
    };
    this.timer = setTimeout(tick, 0);
    return undefined;
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = null;
    this.playButton.textContent = gettext("Play");
    this.place.removeAttribute("aria-live");
  }

  // Keys count only while the bar is open. Returns whether the key was one of them.
  key(name) {
    const actions = { ",": () => this.step(-1), ".": () => this.step(1), y: () => this.play() };
    if (!this.on || !actions[name]) return false;
    actions[name]();
    return true;
  }
}
