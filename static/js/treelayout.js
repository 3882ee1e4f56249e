// Places for the nodes of a scene, in whole columns (depth) and rows. The way to the best is a straight line in row 0;
// the other subtrees are laid out by d3-hierarchy, each for itself, and stacked below as high as their outline allows.

export function layout(scene, hierarchy) {
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
  // Deepest first: what hangs below a spine node starts one column further right, so shallower trees fit underneath.
  for (let depth = spine.length - 1; depth >= 0; depth -= 1) {
    for (const child of scene.childrenOf(spine[depth])) {
      if (!scene.spine.has(child)) stack(scene, hierarchy, child, depth + 1, skyline, places);
    }
  }
  let columns = 1;
  let rows = 1;
  for (const place of places.values()) {
    columns = Math.max(columns, place.x);
    rows = Math.max(rows, place.y);
  }
  return { places, columns, rows };
}

function stack(scene, hierarchy, number, column, skyline, places) {
  const tree = hierarchy.tree().nodeSize([1, 1]).separation((a, b) => (a.parent === b.parent ? 1 : 1.25));
  const laid = tree(hierarchy.hierarchy(number, (n) => scene.childrenOf(n)));
  const top = [];
  const bottom = [];
  laid.each((node) => {
    top[node.depth] = Math.min(top[node.depth] ?? Infinity, node.x);
    bottom[node.depth] = Math.max(bottom[node.depth] ?? -Infinity, node.x);
  });
  let offset = -Infinity;
  top.forEach((row, depth) => {
    offset = Math.max(offset, (skyline[column + depth] ?? 0) - row);
  });
  laid.each((node) => places.set(node.data, { x: column + node.depth, y: node.x + offset }));
  bottom.forEach((row, depth) => {
    skyline[column + depth] = row + offset + 1;
  });
  // Edges into this subtree cross the columns left of it: nothing stacked later may rise above its first row there.
  skyline[column] = Math.max(skyline[column], offset + laid.x + 1);
}
