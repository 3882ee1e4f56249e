// Speedup over attempts or time: best so far as a step, every told node as a point by state, 1.0x as a labelled line.

import { coloursOf, fontOf } from "./colours.js";
import { styleOf } from "./store.js";
import { gettext } from "./texts.js";

const COLOURS = {
  best: "--state-best",
  correct: "--state-correct",
  slower: "--state-slower",
  suspect: "--state-waiting",
  wrong: "--state-wrong",
  line: "--line",
  strong: "--line-strong",
  text: "--text-faint",
  focus: "--focus",
  surface: "--surface",
};
const SERIES = ["best", "correct", "slower", "suspect"]; // styles with a value; failures go to a strip below

export class Chart extends EventTarget {
  constructor({ holder, Plot }) {
    super();
    this.holder = holder;
    this.Plot = Plot;
    this.axis = "attempts";
    this.rows = [];
    new ResizeObserver(() => this.resize()).observe(holder);
    document.addEventListener("adaexplore:theme", () => this.rebuild());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.rebuild());
  }

  show(scene) {
    this.scene = scene;
    if (!this.plot) this.rebuild();
    else this.fill();
  }

  setAxis(axis) {
    this.axis = axis;
    this.rebuild();
  }

  select(n) {
    this.selected = n;
    if (this.plot) this.plot.redraw(false, false);
  }

  // -- data ---------------------------------------------------------------------------------------------------------

  columns() {
    const byTime = this.axis === "time";
    const rows = this.scene.told.filter((node) => !byTime || node.t !== null);
    if (byTime) rows.sort((a, b) => a.t - b.t);
    this.rows = rows;
    const made = { xs: [], steps: [], failed: [], points: SERIES.map(() => new Array(rows.length).fill(null)) };
    let best = null;
    rows.forEach((node, i) => {
      made.xs.push(byTime ? node.t : i + 1);
      if (node.x !== null && node.a && (best === null || node.x > best)) best = node.x; // doubted ones raise no line
      made.steps.push(best);
      made.failed.push(node.x === null ? 0.5 : null);
      if (node.x !== null) made.points[SERIES.indexOf(this.styleHere(node))][i] = node.x;
    });
    return [made.xs, made.steps, ...made.points, made.failed];
  }

  styleHere(node) {
    const style = styleOf(this.scene, node);
    return SERIES.includes(style) ? style : "correct";
  }

  fill() {
    if (!this.scene || document.hidden) return;
    const data = this.columns();
    const { scales } = this.plot;
    const zoomed = this.zoomed;
    const kept = zoomed ? { min: scales.x.min, max: scales.x.max } : null;
    this.plot.setData(data, !zoomed);
    if (kept) this.plot.setScale("x", kept);
  }

  // -- picture ------------------------------------------------------------------------------------------------------

  rebuild() {
    if (!this.scene || !this.Plot) return;
    if (this.plot) this.plot.destroy();
    this.zoomed = false;
    this.readColours();
    const size = this.size();
    if (!size.width) return;
    this.plot = new this.Plot(this.options(size), this.columns(), this.holder);
  }

  size() {
    return { width: this.holder.clientWidth, height: this.holder.clientHeight };
  }

  resize() {
    const size = this.size();
    if (!size.width) return;
    if (this.plot) this.plot.setSize(size);
    else this.rebuild();
  }

  readColours() {
    this.colours = { ...coloursOf(this.holder, COLOURS), font: `11px ${fontOf(this.holder)}` };
  }

  options(size) {
    const { colours: c } = this;
    const axis = { stroke: c.text, font: c.font, grid: { stroke: c.line, width: 1 }, ticks: { show: false } };
    const point = (style, size_, filled) => ({
      scale: "y",
      stroke: c[style],
      paths: () => null,
      points: { show: true, size: size_, width: 1.4, stroke: c[style], fill: filled ? c[style] : c.surface, ...(SHAPES[style] && { paths: SHAPES[style] }) },
    });
    return {
      ...size,
      padding: [10, 10, 0, 0],
      legend: { show: false },
      cursor: { points: { show: false }, drag: { x: true, y: false, setScale: true }, y: false },
      scales: {
        x: { time: false, range: (u, min, max) => spanOf(min, max, this.axis) },
        y: { distr: 3, log: 2, range: (u, min, max) => rangeOf(min, max) },
        strip: { range: () => [0, 16] },
      },
      axes: [
        { ...axis, size: 26, gap: 4, grid: { show: false }, values: (u, ticks) => ticks.map((t) => this.xLabel(t)) },
        { ...axis, scale: "y", size: 44, gap: 4, splits: (u) => ticksOf(u.scales.y), filter: (u, s) => s, values: (u, ticks) => ticks.map(timesLabel) },
      ],
      series: [
        {},
        { scale: "y", stroke: c.best, width: 2, paths: this.Plot.paths.stepped({ align: 1 }), points: { show: false } },
        point("best", 9, true),
        point("correct", 6, false),
        point("slower", 5, false),
        point("suspect", 5, false),
        { scale: "strip", stroke: c.wrong, paths: () => null, points: { show: true, paths: crosses, size: 6, width: 1.3, stroke: c.wrong } },
      ],
      hooks: {
        drawAxes: [(u) => this.reference(u)],
        drawSeries: [(u, i) => i === 1 && this.whiskers(u)],
        draw: [(u) => this.ring(u)],
        setScale: [(u, key) => key === "x" && this.noteZoom(u)],
        ready: [(u) => u.over.addEventListener("click", (event) => this.click(u, event))],
      },
    };
  }

  noteZoom(u) {
    const xs = u.data[0];
    const [low, high] = spanOf(xs[0], xs[xs.length - 1], this.axis);
    this.zoomed = u.scales.x.min > low + 1e-9 || u.scales.x.max < high - 1e-9;
  }

  xLabel(value) {
    if (this.axis === "attempts") return Number.isInteger(value) ? String(value) : "";
    if (value < 120) return `${Math.round(value)} s`;
    return value < 7200 ? `${Math.round(value / 6) / 10} min` : `${Math.round(value / 360) / 10} h`;
  }

  // The dashed line at 1.0x: eager itself.
  reference(u) {
    const y = u.valToPos(1, "y", true);
    const { ctx } = u;
    const { left, width, top, height } = u.bbox;
    if (y < top || y > top + height) return;
    const ratio = devicePixelRatio || 1;
    ctx.save();
    ctx.strokeStyle = this.colours.strong;
    ctx.lineWidth = ratio;
    ctx.setLineDash([4 * ratio, 4 * ratio]);
    ctx.beginPath();
    ctx.moveTo(left, y);
    ctx.lineTo(left + width, y);
    ctx.stroke();
    ctx.fillStyle = this.colours.text;
    ctx.font = this.colours.font.replace("11px", `${11 * ratio}px`);
    ctx.textAlign = "right";
    ctx.textBaseline = "bottom";
    ctx.strokeStyle = this.colours.surface;
    ctx.setLineDash([]);
    ctx.lineWidth = 4 * ratio;
    ctx.strokeText(gettext("eager 1.0×"), left + width - 2 * ratio, y - 2 * ratio);
    ctx.fillText(gettext("eager 1.0×"), left + width - 2 * ratio, y - 2 * ratio);
    ctx.restore();
  }

  // Intervals as thin lines behind the points, where there are few enough to read. A model's range is nearly the same
  // for every node, and wide: only those that were the best have theirs drawn.
  whiskers(u) {
    if (this.rows.length > 400) return;
    const [top, bottom] = [u.bbox.top, u.bbox.top + u.bbox.height];
    const inside = (value) => Math.min(bottom, Math.max(top, u.valToPos(value, "y", true)));
    const { ctx } = u;
    ctx.save();
    ctx.lineWidth = devicePixelRatio || 1;
    ctx.globalAlpha = 0.55;
    this.rows.forEach((node, i) => {
      if (node.x === null || node.lo === null || node.bs === "reported") return;
      if (node.bs === "modelled" && !this.scene.records.has(node.n)) return;
      ctx.strokeStyle = this.colours[this.styleHere(node)];
      const x = u.valToPos(u.data[0][i], "x", true);
      if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) return;
      ctx.beginPath();
      ctx.moveTo(x, inside(node.lo));
      ctx.lineTo(x, inside(node.hi));
      ctx.stroke();
    });
    ctx.restore();
  }

  ring(u) {
    const i = this.rows.findIndex((node) => node.n === this.selected);
    if (i < 0) return;
    const node = this.rows[i];
    const x = u.valToPos(u.data[0][i], "x", true);
    const y = node.x === null ? u.valToPos(0.5, "strip", true) : u.valToPos(node.x, "y", true);
    const ratio = devicePixelRatio || 1;
    const { ctx } = u;
    ctx.save();
    ctx.strokeStyle = this.colours.focus;
    ctx.lineWidth = 2 * ratio;
    ctx.beginPath();
    ctx.arc(x, y, 7 * ratio, 0, 2 * Math.PI);
    ctx.stroke();
    ctx.restore();
  }

  click(u, event) {
    let found = null;
    let least = 16 * 16;
    this.rows.forEach((node, i) => {
      const dx = u.valToPos(u.data[0][i], "x") - event.offsetX;
      const y = node.x === null ? u.valToPos(0.5, "strip") : u.valToPos(node.x, "y");
      const dy = y - event.offsetY;
      if (dx * dx + dy * dy < least) {
        least = dx * dx + dy * dy;
        found = node.n;
      }
    });
    if (found !== null) this.dispatchEvent(new CustomEvent("choose", { detail: found }));
  }
}

function spanOf(min, max, axis) {
  if (min === null || min === undefined) return [0, 10];
  const low = axis === "attempts" ? 0 : 0;
  const high = Math.max(max, axis === "attempts" ? 10 : 10);
  return min > low + (max - min) * 0.02 + 1.5 ? [min, max] : [low, high * 1.02];
}

// 1.0x is always in sight; below the lowest point there is room for the strip of failures.
function rangeOf(min, max) {
  const low = Math.min(min ?? 1, 1);
  const high = Math.max(max ?? 2, 1.5);
  const octaves = Math.log2(high / low);
  return [low / 2 ** (0.16 * octaves + 0.04), high * 2 ** (0.08 * octaves + 0.03)];
}

// Round values, three to six of them: even steps while the axis is short, powers of two once it is long.
function ticksOf({ min, max }) {
  const ticks = [];
  if (max / min > 6) {
    const [low, high] = [Math.ceil(Math.log2(min)), Math.floor(Math.log2(max))];
    const step = Math.max(1, Math.ceil((high - low) / 5));
    for (let power = Math.ceil(low / step) * step; power <= high; power += step) ticks.push(2 ** power);
    return ticks;
  }
  const step = [0.1, 0.2, 0.25, 0.5].find((size) => (max - min) / size <= 6.5) ?? 1;
  for (let i = Math.ceil(min / step); i * step <= max; i += 1) ticks.push(i * step);
  return ticks;
}

function timesLabel(value) {
  const part = 1 / value;
  return value < 1 && Number.isInteger(part) ? `1/${part}×` : `${Number(value.toFixed(2))}×`;
}

// The shapes of the legend: a diamond for a new best, a square for what is slower than eager, else a circle.
const SHAPES = {
  best: shaped((path, x, y, r) => {
    path.moveTo(x, y - r);
    path.lineTo(x + r, y);
    path.lineTo(x, y + r);
    path.lineTo(x - r, y);
    path.closePath();
  }, 5.2),
  slower: shaped((path, x, y, r) => path.rect(x - r, y - r, 2 * r, 2 * r), 2.4),
};

function shaped(draw, radius) {
  return (u, seriesIdx, idx0, idx1) => {
    const path = new Path2D();
    const data = u.data[seriesIdx];
    for (let i = idx0; i <= idx1; i += 1) {
      if (data[i] === null || data[i] === undefined) continue;
      draw(path, u.valToPos(u.data[0][i], "x", true), u.valToPos(data[i], "y", true), radius * (devicePixelRatio || 1));
    }
    return { stroke: path, fill: path, clip: null, flags: 3 };
  };
}

function crosses(u, seriesIdx, idx0, idx1) {
  const stroke = new Path2D();
  const data = u.data[seriesIdx];
  const half = 2.6 * (devicePixelRatio || 1);
  for (let i = idx0; i <= idx1; i += 1) {
    if (data[i] === null || data[i] === undefined) continue;
    const x = u.valToPos(u.data[0][i], "x", true);
    const y = u.valToPos(data[i], "strip", true);
    stroke.moveTo(x - half, y - half);
    stroke.lineTo(x + half, y + half);
    stroke.moveTo(x + half, y - half);
    stroke.lineTo(x - half, y + half);
  }
  return { stroke, fill: null, clip: null, flags: 3 };
}
