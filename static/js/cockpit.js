// The cockpit: joins store, tree, chart, table, feed and drawer. Data comes from Live; the view belongs to the reader.

import "./copy.js";
import "./diff.js";
import "./ticks.js";
import { announce } from "./announce.js";
import { Chart } from "./chart.js";
import { showControls, startControls } from "./controls.js";
import { Drawer } from "./drawer.js";
import { Feed } from "./feed.js";
import { Grid } from "./grid.js";
import { keysAreOn } from "./keys.js";
import { Live } from "./live.js";
import { text as measureText } from "./measure.js";
import { startPanels, swap } from "./panels.js";
import { Replay } from "./replay.js";
import { Store } from "./store.js";
import { gettext, interpolate, ngettext } from "./texts.js";
import { Tree } from "./tree.js";
import { TreeActs } from "./treeacts.js";

const CONNECTIONS = {
  live: gettext("live"),
  paused: gettext("paused"),
  polling: gettext("polling"),
  offline: gettext("offline"),
  gone: gettext("gone"),
  "catching up": gettext("catching up"),
  "signed out": gettext("signed out"),
  "not allowed": gettext("not allowed"),
  "old page": gettext("old page"),
};
const ENDED = new Set(["finished", "stopped", "failed"]);
const $ = (id) => document.getElementById(id);
const root = $("cockpit");
const base = root.dataset.base;
const styles = JSON.parse($("styles").textContent);
const address = new URL(location.href);
const store = new Store(styles);
const narrow = matchMedia("(max-width: 43.75rem)");
let selected = null;
let follow = false;

// -- parts ------------------------------------------------------------------------------------------------------------

const live = new Live(base, Number(root.dataset.run));
const feed = new Feed($("feed"), $("feed-empty"), $("feed-new"));
const grid = new Grid({ table: $("grid"), more: $("grid-more"), legend: $("legend"), base, labels: styles.labels });
const drawer = new Drawer({ element: $("drawer"), body: $("drawer-body"), title: $("drawer-title"), link: $("drawer-link"), base });
const replay = $("replay") ? new Replay({ root: $("replay"), load: () => live.fetch("replay") }) : null;
const tree = window.d3 && window.d3.hierarchy
  ? new Tree({ canvas: $("tree"), stage: $("stage"), tip: $("tip"), legend: $("legend"), hierarchy: window.d3, steps: Number(root.dataset.steps) })
  : null;
const chart = window.uPlot ? new Chart({ holder: $("chart"), Plot: window.uPlot }) : null;
if (tree) tree.labels = styles.labels;
window.cockpitTree = tree; // for whoever looks at the page from its console, and for its tests

// -- drawing ----------------------------------------------------------------------------------------------------------

let scene = store.scene();

function show() {
  scene = store.scene(replay && replay.moment);
  if (tree) tree.show(scene);
  if (chart && !$("chart").hidden) chart.show(scene);
  grid.show(scene);
  $("tree-empty").hidden = scene.nodes.length > 1;
  if (follow && scene.newest !== null && tree) tree.reveal(scene.newest);
  root.dataset.nodes = scene.nodes.length;
  root.dataset.told = scene.told.length;
  caption();
}

function caption() {
  const { told, records, best, leader, by } = scene;
  const count = told.length;
  const number = best ?? leader;
  const speedup = number === null ? "" : measureText(by.get(number));
  let text = gettext("No candidate has been judged yet.");
  if (count && best !== null && records.size === 1) text = ngettext("%(count)s candidate; the best was set once, by node %(number)s (%(speedup)s).", "%(count)s candidates; the best was set once, by node %(number)s (%(speedup)s).", count);
  else if (count && best !== null) text = ngettext("%(count)s candidate; the best was raised %(times)s times, last by node %(number)s (%(speedup)s).", "%(count)s candidates; the best was raised %(times)s times, last by node %(number)s (%(speedup)s).", count);
  else if (count && leader !== null) text = ngettext("%(count)s candidate. %(nothing)s; the closest kernel is node %(number)s (%(speedup)s).", "%(count)s candidates. %(nothing)s; the closest kernel is node %(number)s (%(speedup)s).", count);
  else if (told.some((node) => node.x !== null)) text = ngettext("%(count)s candidate; no passing kernel is audited and free of doubt, so there is no best yet.", "%(count)s candidates; no passing kernel is audited and free of doubt, so there is no best yet.", count);
  else if (count) text = ngettext("None of %(count)s candidate has passed yet.", "None of %(count)s candidates has passed yet.", count);
  $("chart-caption").textContent = interpolate(text, { count, number, speedup, times: records.size, nothing: nothingFaster() });
}

function nothingFaster() {
  return ENDED.has(root.dataset.state) ? gettext("Nothing faster than PyTorch was found") : gettext("Nothing faster than PyTorch yet");
}

function setView(view) {
  const picture = view === "tree" && tree !== null;
  $("stage").hidden = !picture;
  $("grid-holder").hidden = picture;
  for (const row of document.querySelectorAll('[data-for="tree"]')) row.hidden = !picture;
  for (const input of document.querySelectorAll('input[name="view"]')) input.checked = (input.value === "tree") === picture;
  if (!picture) grid.appear();
  return picture;
}

function remember(key, value) {
  if (value === null || value === undefined || value === "") address.searchParams.delete(key);
  else address.searchParams.set(key, value);
  history.replaceState(history.state, "", address);
}

// -- selection --------------------------------------------------------------------------------------------------------

async function select(n, { open = true, reveal = "", focus = true } = {}) {
  selected = n;
  if (tree) tree.select(n);
  if (chart) chart.select(n);
  grid.select(n);
  remember("n", n);
  let opened = null;
  if (n === null) drawer.close();
  else if (open) opened = drawer.open(n, { focus });
  // The drawer takes room from the tree; once it has, the chosen node must still be in sight.
  if (tree && n !== null) setTimeout(() => tree.reveal(n, reveal === "centre"), 60);
  await opened;
}

function step(towards) {
  const node = scene.by.get(selected ?? scene.leader ?? 0);
  if (!node) return;
  if (towards === "parent") {
    if (node.p >= 0) select(node.p, { focus: false });
    return;
  }
  const children = scene.childrenOf(node.n).map((n) => scene.by.get(n));
  if (!children.length) return;
  const worth = (child) => (scene.spine.has(child.n) ? 1e9 : (child.x ?? -1));
  select(children.reduce((a, b) => (worth(b) > worth(a) ? b : a)).n, { focus: false });
}

// -- what buttons and keys do -----------------------------------------------------------------------------------------

const nodeActs = new TreeActs({ tree, grid, drawer, store, select: (n) => select(n, { focus: false }), show, say });
document.addEventListener("undone", () => drawer.refresh());

const ACTS = {
  acts: () => chosenMenu(),
  "zoom-in": () => tree && tree.zoom(1.25),
  "zoom-out": () => tree && tree.zoom(0.8),
  left: () => tree && tree.pan(80, 0),
  right: () => tree && tree.pan(-80, 0),
  up: () => tree && tree.pan(0, 80),
  down: () => tree && tree.pan(0, -80),
  fit: () => tree && tree.fit(),
  best: () => scene.leader !== null && goTo(scene.leader),
  newest: () => scene.newest !== null && goTo(scene.newest),
  follow: () => setFollow(!follow),
  parent: () => step("parent"),
  child: () => step("child"),
  close: () => select(null),
  diff: () => difference(),
  live: () => (live.paused ? live.resume() : live.pause()),
  replay: () => (replay.on ? replay.close() : replay.open()),
  "replay-back": () => replay.step(-1),
  "replay-next": () => replay.step(1),
  "replay-play": () => replay.play(),
};
const KEYS = { "+": "zoom-in", "=": "zoom-in", "-": "zoom-out", 0: "fit", b: "best", e: "newest", o: "follow", l: "live", "[": "parent", "]": "child", d: "diff" };
const SHIFTED = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };

// The menu of the chosen node, else of the best, for those who point without a second button.
function chosenMenu() {
  const n = selected ?? scene.leader;
  if (n === null) return say(gettext("Choose a node first."));
  const box = document.querySelector('[data-do="acts"]').getBoundingClientRect();
  return nodeActs.open(n, box.left, box.bottom + 4);
}

function say(text) {
  $("announcer").textContent = text;
  const note = $("tree-said");
  note.textContent = text;
  note.hidden = false;
  setTimeout(() => (note.hidden = true), 4000);
}

function goTo(n) {
  select(n, { focus: false, reveal: "centre" });
}

// The difference of the chosen node, else of the best.
function difference() {
  const n = selected ?? scene.leader;
  if (n === null) return;
  drawer.wanted = "tab=diff";
  if (drawer.shown === n) drawer.load();
  else select(n, { focus: false });
}

function setFollow(on) {
  follow = on;
  document.querySelector('[data-do="follow"]').setAttribute("aria-pressed", String(on));
  if (on && tree && scene.newest !== null) tree.reveal(scene.newest, true);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-do]");
  if (button) ACTS[button.dataset.do]();
  const link = event.target.closest("a[data-node]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  select(Number(link.dataset.node));
});

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest("input:not([type=radio], [type=checkbox], [type=range]), textarea, select, [contenteditable]");
  if (event.target.closest("dialog") || (typing && event.key !== "Escape")) return;
  if (event.key.length === 1 && !keysAreOn()) return;
  if (event.key === "Escape" && drawer.shown !== null && !document.querySelector("details.menu[open], dialog[open]")) {
    event.preventDefault();
    select(null);
  } else if (event.shiftKey && event.key === "D") {
    const link = document.querySelector("[data-download]");
    if (link) link.click();
  } else if (event.key === "t") {
    const picture = setView($("stage").hidden ? "tree" : "table");
    remember("tab", picture ? "" : "table");
  } else {
    if (replay && !event.shiftKey && replay.key(event.key)) return event.preventDefault();
    const act = event.shiftKey && SHIFTED[event.key] ? SHIFTED[event.key] : KEYS[event.key];
    if (!act) return;
    event.preventDefault();
    ACTS[act]();
  }
});

// -- live -------------------------------------------------------------------------------------------------------------

function apply(frame) {
  const before = scene.best;
  store.apply(frame.nodes || { n: [] });
  feed.apply(frame.feed || []);
  if (frame.html && !(replay && replay.on)) swap(frame.html);
  if (frame.html) latest = frame.html;
  const ended = root.dataset.state !== frame.state && ENDED.has(frame.state);
  root.dataset.state = frame.state;
  showControls(frame.state);
  if (!(replay && replay.on)) {
    show();
    if (before !== null && scene.best !== null && scene.best !== before) announce(interpolate(gettext("New best: node %(number)s, %(speedup)s"), { number: scene.best, speedup: measureText(scene.by.get(scene.best)) }));
    if (ended) announce({ finished: gettext("Search finished"), stopped: gettext("Search stopped"), failed: gettext("Search failed") }[frame.state]);
  }
  if (document.hidden) badge(true);
  const open = drawer.shown;
  if (open !== null && frame.nodes && frame.nodes.n.includes(open) && frame.type === "frame") drawer.refresh();
}

let latest = null;
live.addEventListener("frame", (event) => apply(event.detail));
live.addEventListener("snapshot", (event) => {
  store.clear();
  apply(event.detail);
});
live.addEventListener("visible", () => {
  badge(false);
  show();
});
live.addEventListener("state", (event) => {
  const { state, detail, changed } = event.detail;
  const label = CONNECTIONS[state];
  const button = $("live");
  button.dataset.state = state.replace(" ", "-");
  $("live-word").textContent = detail ? `${label} · ${detail}` : label;
  button.title = state === "paused" ? gettext("Resume live updates (l)") : gettext("Pause live updates (l)");
  if (changed && ["offline", "signed out", "polling"].includes(state)) announce(interpolate(gettext("Connection: %(state)s"), { state: label }));
  if ($("signed-out") && state === "live") actionsAllowed(true);
  if (state === "signed out" || state === "live") $("signed-out")?.remove();
  if (state === "signed out") signedOut();
});
$("live").addEventListener("click", () => {
  if (live.paused || live.connected || live.polling) ACTS.live();
  else live.dialNow();
});

function signedOut() {
  actionsAllowed(false);
  const note = document.createElement("p");
  note.id = "signed-out";
  note.className = "notice notice-warning";
  const link = document.createElement("a");
  link.href = `/sign-in/?next=${encodeURIComponent(location.pathname + location.search)}`;
  link.textContent = gettext("Sign in again");
  note.append(gettext("You are signed out. What you see stays, but it no longer updates."), " ", link);
  $("messages").append(note);
}

// Without a session no act would be taken.
function actionsAllowed(yes) {
  for (const button of document.querySelectorAll('#cockpit form[method="post"] button')) button.disabled = !yes;
}


function badge(on) {
  const title = document.title.replace(/^● /, "");
  document.title = on ? `● ${title}` : title;
}

// -- replay -----------------------------------------------------------------------------------------------------------

if (replay) {
  replay.addEventListener("moved", () => {
    root.classList.toggle("replaying", replay.on);
    remember("at", replay.on ? replay.at : null);
    show();
    // A view that nobody has moved follows the growth that somebody asked to see.
    if (tree && replay.playing && !tree.moved && !$("tree-outside").hidden) tree.fit(true);
    if (replay.on) replayHeader();
    else if (latest) swap(latest);
  });
}

// The header at the moment shown: only what the nodes themselves say.
function replayHeader() {
  const best = scene.leader === null ? null : scene.by.get(scene.leader);
  const facts = [
    [scene.best === null && best ? gettext("Closest to PyTorch at this point") : gettext("Best at this point"), best ? interpolate(gettext("%(speedup)s · node %(number)s"), { speedup: measureText(best), number: best.n }) : gettext("none yet")],
    [gettext("Position"), $("replay-word").textContent],
    [gettext("Steps judged"), interpolate(gettext("%(done)s of %(steps)s"), { done: scene.told.length, steps: root.dataset.steps })],
    [gettext("In flight"), String(scene.pending.length)],
    [gettext("Correct"), String(scene.told.filter((node) => node.x !== null).length)],
  ];
  const list = document.createElement("dl");
  list.className = "evidence-facts";
  for (const [name, value] of facts) {
    const fact = document.createElement("div");
    fact.className = "fact";
    const dt = document.createElement("dt");
    const dd = document.createElement("dd");
    dt.textContent = name;
    dd.textContent = value;
    fact.append(dt, dd);
    list.append(fact);
  }
  $("evidence").replaceChildren(list);
}

// -- start ------------------------------------------------------------------------------------------------------------

document.documentElement.classList.add("scripted");
$("live").hidden = false;
$("tree-tools").hidden = !tree;
$("vendor-missing").hidden = Boolean(tree && chart);
if (chart) {
  $("chart").hidden = false;
  $("chart-still").remove();
  $("chart-tools").hidden = root.dataset.origin === "import"; // a recording has no clock
  chart.axis = address.searchParams.get("x") === "time" && !$("chart-tools").hidden ? "time" : "attempts";
  for (const input of document.querySelectorAll('input[name="x"]')) {
    input.checked = input.value === chart.axis;
    input.addEventListener("change", () => {
      chart.setAxis(input.value);
      remember("x", input.value === "time" ? "time" : "");
    });
  }
  chart.addEventListener("choose", (event) => select(event.detail));
}
for (const input of document.querySelectorAll('input[name="view"]')) {
  input.addEventListener("change", () => remember("tab", setView(input.value) ? "" : "table"));
}
if (tree) {
  tree.addEventListener("choose", (event) => select(event.detail));
  tree.addEventListener("touched", () => follow && setFollow(false));
  tree.addEventListener("painted", (event) => {
    const { outside } = event.detail;
    $("tree-outside").hidden = outside === 0;
    $("tree-outside").firstElementChild.textContent = interpolate(gettext("%(outside)s of %(count)s nodes are outside this view."), { outside, count: scene.nodes.length });
  });
}
grid.addEventListener("choose", (event) => select(event.detail));
const wanted = address.searchParams.get("tab");
setView(wanted === "table" || (wanted !== "tree" && narrow.matches) ? "table" : "tree");
startPanels();
startControls(() => {});
await live.start();
const asked = address.searchParams.get("n");
if (asked !== null && /^\d+$/.test(asked) && scene.by.has(Number(asked))) select(Number(asked), { focus: false });
const moment = address.searchParams.get("at");
if (replay && moment !== null && /^\d+$/.test(moment)) {
  await replay.open(Number(moment));
  const play = address.searchParams.has("play");
  remember("play", null);
  if (play && !matchMedia("(prefers-reduced-motion: reduce)").matches) replay.play();
}
