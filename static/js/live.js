// Keeps one run fresh: a websocket, ordered by event number, resumed after any gap; polling where sockets do not pass.
// Emits: frame, snapshot, state {state, detail}, gone.

import { gettext, interpolate } from "./texts.js";
import { unpack } from "./unpack.js";

const FIRST_MS = [300, 3000];
const MOST_MS = 15000;
const SILENCE_MS = 25000;
const DIALS_BEFORE_POLLING = 3;
const POLL_MS = 3000;
const POLLS_AT_ONCE = 20; // then once a minute until somebody does something
const SLOW_POLL_MS = 60000;
const FINAL = { 4401: "signed out", 4403: "not allowed", 4404: "gone", 4409: "old page" };

export class Live extends EventTarget {
  constructor(base, run) {
    super();
    this.base = base;
    this.run = run;
    this.last = 0;
    this.head = 0;
    this.paused = false;
    this.generation = 0; // answers of a socket that was replaced are ignored
    this.dials = 0;
    this.polling = false;
    this.polls = 0;
    this.stopped = false;
    this.missteps = 0;
    this.lag = null;
    this.skew = 0;
  }

  async start() {
    await this.snapshot();
    this.dial();
    this.watchdog = setInterval(() => this.watch(), 5000);
    addEventListener("online", () => this.dialNow());
    addEventListener("pageshow", (event) => event.persisted && this.dialNow());
    addEventListener("offline", () => this.say("offline"));
    document.addEventListener("visibilitychange", () => this.seen());
    for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, () => (this.polls = 0), { passive: true });
  }

  // -- socket -------------------------------------------------------------------------------------------------------

  dial() {
    clearTimeout(this.redial);
    if (this.stopped) return;
    const mine = (this.generation += 1);
    this.drop();
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}/ws/run/${this.run}?since=${this.last}&v=1`);
    this.socket = socket;
    this.heard = Date.now();
    socket.onmessage = (event) => {
      if (mine !== this.generation) return;
      this.heard = Date.now();
      this.receive(JSON.parse(event.data));
    };
    socket.onclose = (event) => {
      if (mine === this.generation) this.closed(event.code);
    };
  }

  dialNow() {
    if (this.stopped && this.state !== "signed out") return;
    this.stopped = false;
    this.dials = 0;
    this.dial();
  }

  drop() {
    if (!this.socket) return;
    this.socket.onclose = null;
    this.socket.onmessage = null;
    this.socket.close();
    this.socket = null;
  }

  send(message) {
    if (this.socket && this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  closed(code) {
    this.socket = null;
    this.connected = false;
    if (code in FINAL) {
      this.stopped = true;
      this.say(FINAL[code]);
      return;
    }
    this.dials += 1;
    if (this.dials >= DIALS_BEFORE_POLLING && !this.polling) this.poll();
    else if (!this.polling) this.say("offline");
    const most = this.polling ? SLOW_POLL_MS : Math.min(MOST_MS, FIRST_MS[1] * 2 ** Math.max(0, this.dials - 1));
    this.redial = setTimeout(() => this.dial(), FIRST_MS[0] + Math.random() * (most - FIRST_MS[0]));
  }

  watch() {
    if (this.socket && Date.now() - this.heard > SILENCE_MS) {
      this.drop();
      this.closed(1006);
    }
  }

  seen() {
    this.send({ type: "pace", fps: document.hidden ? 1 : 4 });
    if (document.hidden) return;
    this.polls = 0;
    if (!this.connected) this.dialNow();
    this.dispatchEvent(new Event("visible"));
  }

  receive(message) {
    if (message.type === "hello") {
      this.connected = true;
      this.dials = 0;
      this.polling = false;
      clearTimeout(this.nextPoll);
      this.head = Math.max(this.head, message.head);
      this.skew = message.time - Date.now(); // of the two clocks, within the time of one message
      if (this.paused) this.send({ type: "pause" });
      if (document.hidden) this.send({ type: "pace", fps: 1 });
      this.settle();
    } else if (message.type === "beat") {
      this.head = Math.max(this.head, message.head);
      this.settle();
    } else if (message.type === "paused") {
      this.news = message.new;
      this.settle();
    } else if (message.type === "resync") {
      this.resync();
    } else if (message.type === "frame") {
      this.frame(message);
    }
  }

  // -- order --------------------------------------------------------------------------------------------------------

  // The one door for frames of socket and polling: nothing is applied twice, nothing is skipped.
  frame(frame) {
    if (frame.to <= this.last) {
      this.send({ type: "ack", to: frame.to });
      return;
    }
    if (frame.from > this.last) {
      this.send({ type: "resume", since: this.last });
      return;
    }
    try {
      this.dispatchEvent(new CustomEvent("frame", { detail: frame }));
    } catch (error) {
      this.misstep(error);
      return;
    }
    this.missteps = 0;
    this.last = frame.to;
    this.head = Math.max(this.head, frame.head);
    if (frame.t) this.lag = Math.max(0, Date.now() + this.skew - frame.t);
    this.send({ type: "ack", to: frame.to });
    this.settle();
  }

  misstep(error) {
    console.error(error);
    this.missteps += 1;
    if (this.missteps === 1) this.send({ type: "resume", since: this.last });
    else this.resync();
  }

  async resync() {
    this.say("catching up");
    await this.snapshot();
    if (!this.paused) this.send({ type: "resume", since: this.last });
  }

  async snapshot() {
    const answer = await this.fetch("snapshot?packed=1");
    if (!answer) return false;
    answer.nodes = unpack(answer.nodes);
    this.last = answer.to;
    this.head = answer.head;
    this.dispatchEvent(new CustomEvent("snapshot", { detail: answer }));
    return true;
  }

  pause() {
    this.paused = true;
    this.news = 0;
    this.send({ type: "pause" });
    this.settle();
  }

  resume() {
    this.paused = false;
    this.send({ type: "resume", since: this.last });
    if (this.polling) this.poll();
    this.settle();
  }

  // -- polling ------------------------------------------------------------------------------------------------------

  async poll() {
    clearTimeout(this.nextPoll);
    if (this.connected || this.stopped) return;
    this.polling = true;
    if (!this.paused && !document.hidden) {
      const answer = await this.fetch(`events?since=${this.last}`);
      if (answer && answer.type === "resync") await this.snapshot();
      else if (answer && answer.to > this.last) this.frame(answer);
      if (answer) this.say("polling");
      this.polls += 1;
    }
    if (this.stopped || this.connected) return;
    this.nextPoll = setTimeout(() => this.poll(), this.polls < POLLS_AT_ONCE ? POLL_MS : SLOW_POLL_MS);
  }

  // The HTTP status tells "signed out" from "offline".
  async fetch(path) {
    let answer;
    try {
      answer = await fetch(this.base + path, { redirect: "manual", headers: { Accept: "application/json" } });
    } catch {
      this.say("offline");
      return null;
    }
    if (answer.type === "opaqueredirect" || answer.status === 401) {
      this.stopped = true;
      this.say("signed out");
      return null;
    }
    if (answer.status === 404) {
      this.stopped = true;
      this.say("gone");
      return null;
    }
    if (!answer.ok) {
      this.say("offline");
      return null;
    }
    return answer.json();
  }

  // -- what the reader is told --------------------------------------------------------------------------------------

  settle() {
    if (this.paused) this.say("paused", this.news ? interpolate(gettext("%(count)s new"), { count: this.news }) : "");
    else if (!this.connected) return;
    else if (this.head > this.last) this.say("catching up", interpolate(gettext("%(count)s behind"), { count: this.head - this.last }));
    else this.say("live", this.lag === null ? "" : `${this.lag < 1000 ? `${this.lag} ms` : `${(this.lag / 1000).toFixed(1)} s`}`);
  }

  say(state, detail = "") {
    if (state === "offline" && this.state !== "offline") this.since = new Date();
    if (state === "offline") {
      const time = this.since.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
      detail = interpolate(gettext("since %(time)s"), { time });
    }
    const changed = this.state !== state;
    this.state = state;
    this.dispatchEvent(new CustomEvent("state", { detail: { state, detail, changed } }));
  }
}
