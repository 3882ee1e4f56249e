// The nodes of one run as the page knows them, and scenes: what there is to draw, now or at an earlier moment.

import { gettext } from "./texts.js";

export const KINDS = [gettext("start"), gettext("large"), gettext("small")]; // labels
// What people did to a node, as flags; search/live/columns.py says them too.
const PRUNED = 1;
const PINNED = 2;
const TOUCHED = 4;
const BOOSTED = 8;
const QUARANTINED = 16;
const FLAKY = 32;
const ASKED = 64;
const SENDING = 128; // known here only: an act is on its way to the server
const HANDS = [
  [SENDING, gettext("sending"), "proposing"],
  [PRUNED, gettext("pruned"), "pruned"],
  [PINNED, gettext("pinned"), "pinned"],
  [BOOSTED, gettext("boosted"), "person"],
  [QUARANTINED, gettext("quarantined"), "suspect"],
  [FLAKY, gettext("flaky"), "suspect"],
  [ASKED, gettext("being judged again"), "proposing"],
  [TOUCHED, gettext("manual influence"), "person"],
];
// What an act is going to do to the flags: [set, clear].
const GUESSES = {
  pin: [PINNED, 0],
  prune: [PRUNED, 0],
  restore: [0, PRUNED],
  boost: [BOOSTED, 0],
  quarantine: [QUARANTINED, FLAKY],
  flaky: [FLAKY, QUARANTINED],
  release: [0, QUARANTINED | FLAKY],
  verify: [ASKED, 0],
  dispute: [ASKED, 0],
};
const IN_FLIGHT = new Set(["proposing", "judging", "waiting"]);

export class Store {
  constructor(styles) {
    this.styles = styles.names;
    this.labels = styles.labels;
    this.nodes = []; // by number; numbers have no gaps
    this.guessed = new Map(); // number -> the row as the server last said it, while an act on it is on its way
  }

  // Rows are state: applying one twice, or a newer one early, does no harm.
  apply(columns) {
    for (let i = 0; i < columns.n.length; i += 1) {
      const node = { record: false, spine: false };
      for (const key of Object.keys(columns)) node[key] = columns[key][i];
      node.style = this.styles[node.s];
      this.nodes[node.n] = node;
      this.guessed.delete(node.n);
    }
  }

  clear() {
    this.nodes = [];
    this.guessed.clear();
  }

  // Show an act before the server has answered. False where there is no such node.
  guess(n, act) {
    const node = this.nodes[n];
    if (!node) return false;
    if (!this.guessed.has(n)) this.guessed.set(n, node);
    const [set, clear] = GUESSES[act] || [0, 0];
    const doubted = set & (QUARANTINED | FLAKY);
    this.nodes[n] = { ...node, m: ((node.m | set) & ~clear) | SENDING, ...(doubted ? { style: "suspect", a: 0 } : {}) };
    return true;
  }

  // The answer: a guess that was right stays until the row comes, a wrong one goes.
  answered(n, right) {
    const before = this.guessed.get(n);
    this.guessed.delete(n);
    if (!before) return;
    this.nodes[n] = right ? { ...this.nodes[n], m: this.nodes[n].m & ~SENDING } : before;
  }

  // `moment`: null for now, else {at, born, ended} with event numbers by node number.
  scene(moment = null) {
    const nodes = [];
    for (const node of this.nodes) {
      if (!node) continue;
      const shown = moment ? then(node, moment) : node;
      if (shown) nodes.push(shown);
    }
    return describe(nodes);
  }
}

function then(node, { at, born, ended }) {
  if (!(born[node.n] <= at)) return null;
  if (ended[node.n] !== null && ended[node.n] !== undefined && ended[node.n] <= at) return settled(node);
  return { ...node, style: "proposing", x: null, lo: null, hi: null, o: null, a: 0, t: null, r: "", v: "", d: "", m: node.m & TOUCHED };
}

// Pins and prunes are those of now: at an earlier moment only the lasting mark is shown.
function settled(node) {
  return node.m & ~TOUCHED ? { ...node, m: node.m & TOUCHED } : node;
}

// Which of two kernels is the best: search/algorithm/ranking.py says it too.
const WON = 2; // in column a: it may be the best, and beat PyTorch

function outranks(node, best) {
  return best === null || node.x > best.x || (node.x === best.x && node.n < best.n);
}

function describe(nodes) {
  const by = new Map(nodes.map((node) => [node.n, node]));
  const children = new Map();
  for (const node of nodes) {
    if (node.p < 0) continue;
    if (!children.has(node.p)) children.set(node.p, []);
    children.get(node.p).push(node.n);
  }
  const told = nodes.filter((node) => node.o !== null && node.k !== 0).sort((a, b) => a.o - b.o);
  const records = new Set();
  let best = null; // the fastest that beat PyTorch
  let closest = null; // the fastest of all that may be the best
  for (const node of told) {
    if (node.x === null || !node.a) continue;
    if (outranks(node, closest)) closest = node;
    if (node.a !== WON || !outranks(node, best)) continue;
    records.add(node.n);
    best = node;
  }
  const leader = best ?? closest;
  const spine = new Set();
  for (let at = leader; at; at = by.get(at.p)) spine.add(at.n);
  const faded = new Set(); // pruned, here or above; parents come first
  for (const node of nodes) if (node.m & PRUNED || faded.has(node.p)) faded.add(node.n);
  const pending = nodes.filter((node) => IN_FLIGHT.has(node.style));
  return {
    nodes,
    by,
    told,
    records,
    spine,
    faded,
    best: best ? best.n : null, // null where nothing beat PyTorch
    leader: leader ? leader.n : null, // the best, else the closest
    pending,
    childrenOf: (n) => children.get(n) || [],
    newest: nodes.length ? nodes[nodes.length - 1].n : null,
  };
}

// How a node is drawn: a node that was the best when it was told keeps that mark.
export function styleOf(scene, node) {
  return scene.records.has(node.n) ? "best" : node.style;
}

export const isPruned = (node) => Boolean(node.m & PRUNED);

// What people did to a node: [label, mark of the legend] each.
export function handsOn(node) {
  return HANDS.filter(([flag]) => node.m & flag).map(([, label, mark]) => [label, mark]);
}
