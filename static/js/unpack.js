// Columns of a snapshot as search/live/columns.py writes them, made whole again.

export function unpack(columns) {
  if (!columns.packed) return columns;
  const { packed: _, ...nodes } = columns;
  nodes.n = sums(columns.n);
  nodes.o = sums(columns.o);
  nodes.p = columns.p.map((back, i) => nodes.n[i] - back);
  const births = sums(columns.b);
  nodes.b = births.map((tenths) => tenths / 10);
  nodes.t = columns.t.map((tenths, i) => (tenths === null ? null : (births[i] + tenths) / 10));
  for (const name of ["lo", "hi"]) nodes[name] = columns[name].map((short, i) => end(short, columns.x[i], columns.bs[i]));
  return nodes;
}

function sums(steps) {
  let last = 0;
  return steps.map((step) => (step === null ? null : (last += step)));
}

function end(short, speedup, basis) {
  if (short === null) return null;
  return basis === "measured" ? (Math.floor(100 * speedup + 0.5) + short) / 100 : speedup * short;
}
