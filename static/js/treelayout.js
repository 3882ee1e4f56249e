// Places for the nodes of a scene, in whole columns (depth) and rows. The way to the best is a straight line in row 0;
// the other subtrees are laid out by d3-hierarchy, each for itself, and stacked below as high as their outline allows.

// `known`: subtrees laid out before, by their root. A subtree only ever grows: with as many nodes as then it is the same.
export function layout(scene, hierarchy, known = new Map()) {
  const places = new Map();
  if (!scene.nodes.length) return { places, columns: 1, rows: 1 };
  const root = scene.nodes[0].n;
  const spine = [];
  for (let at = root; at !== undefined; ) {
    spine.push(at);
    at = scene.spine.size ? scene.childrenOf(at).find((child) => scene.spine.has(child)) : undefined;
  }
  const skyline = []; // per column the first free row
  spine.forEach((number, depth) => {
    places.set(number, { x: depth, y: 0 });
    skyline[depth] = 1;
  });
  const sizes = sizesOf(scene);
  const used = new Map();
  const laidOut = (number) => {
    let laid = known.get(number);
    if (!laid || laid.size !== sizes.get(number)) laid = subtree(scene, hierarchy, number, sizes.get(number));
    used.set(number, laid);
    return laid;
  };
  // Deepest first: what hangs below a spine node starts one column further right, so shallower trees fit underneath.
  for (let depth = spine.length - 1; depth >= 0; depth -= 1) {
    for (const child of scene.childrenOf(spine[depth])) {
      if (!scene.spine.has(child)) stack(laidOut(child), depth + 1, skyline, places);
    }
  }
  known.clear();
  for (const [number, laid] of used) known.set(number, laid);
  let columns = 1;
  let rows = 1;
  for (const place of places.values()) {
    columns = Math.max(columns, place.x);
    rows = Math.max(rows, place.y);
  }
  return { places, columns, rows };
}

// How many nodes hang at each node, itself counted. Parents come before their children.
function sizesOf({ nodes }) {
  const sizes = new Map();
  for (let i = nodes.length - 1; i >= 0; i -= 1) {
    const { n, p } = nodes[i];
    const size = (sizes.get(n) || 0) + 1;
    sizes.set(n, size);
    sizes.set(p, (sizes.get(p) || 0) + size);
  }
  return sizes;
}

// A subtree for itself: its nodes with depth and row, and per depth its first and last row.
function subtree(scene, hierarchy, number, size) {
  const tree = hierarchy.tree().nodeSize([1, 1]).separation((a, b) => (a.parent === b.parent ? 1 : 1.25));
  const laid = tree(hierarchy.hierarchy(number, (n) => scene.childrenOf(n)));
  const top = [];
  const bottom = [];
  const nodes = [];
  laid.each((node) => {
    nodes.push([node.data, node.depth, node.x]);
    top[node.depth] = Math.min(top[node.depth] ?? Infinity, node.x);
    bottom[node.depth] = Math.max(bottom[node.depth] ?? -Infinity, node.x);
  });
  return { size, nodes, top, bottom, row: laid.x, column: null, offset: null, places: [] };
}

// Put a subtree under what stands already. Where nothing moved, the places are those of before.
function stack(laid, column, skyline, places) {
  const { top, bottom } = laid;
  let offset = -Infinity;
  top.forEach((row, depth) => {
    offset = Math.max(offset, (skyline[column + depth] ?? 0) - row);
  });
  if (laid.column !== column || laid.offset !== offset) {
    Object.assign(laid, { column, offset });
    laid.places = laid.nodes.map(([number, depth, row]) => [number, { x: column + depth, y: row + offset }]);
  }
  for (const [number, place] of laid.places) places.set(number, place);
  bottom.forEach((row, depth) => {
    skyline[column + depth] = row + offset + 1;
  });
  // Edges into this subtree cross the columns left of it: nothing stacked later may rise above its first row there.
  skyline[column] = Math.max(skyline[column], offset + laid.row + 1);
}
