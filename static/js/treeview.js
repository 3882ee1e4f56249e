// Which part of the tree is seen: px per column and row, and where the root is. Changed only when the reader asks.

const EDGE = 44; // px of air around a fitted tree

export class View {
  constructor() {
    Object.assign(this, { sx: 96, sy: 26, tx: EDGE, ty: EDGE, width: 0, height: 0 });
  }

  screen(place) {
    return { x: place.x * this.sx + this.tx, y: place.y * this.sy + this.ty };
  }

  // Show this many columns and rows, as large as is still pleasant.
  fit(columns, rows) {
    this.sx = clamp((this.width - 2 * EDGE - 30) / columns, 34, 150);
    this.sy = clamp((this.height - 2 * EDGE) / rows, 3, 44);
    const spare = this.height - 2 * EDGE - rows * this.sy;
    this.tx = EDGE;
    this.ty = EDGE + Math.max(0, Math.min(spare / 2, 120));
  }

  // Larger or smaller around a point that stays where it is.
  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const sx = clamp(this.sx * factor, 12, 260);
    const sy = clamp(this.sy * factor, 0.6, 90);
    this.tx = x - ((x - this.tx) * sx) / this.sx;
    this.ty = y - ((y - this.ty) * sy) / this.sy;
    this.sx = sx;
    this.sy = sy;
  }

  pan(dx, dy) {
    this.tx += dx;
    this.ty += dy;
  }

  centre(place) {
    const { x, y } = this.screen(place);
    this.pan(this.width / 2 - x, this.height / 2 - y);
  }

  // Well inside, with room for a label.
  shows(place) {
    const { x, y } = this.screen(place);
    return x > 30 && y > 24 && x < this.width - 60 && y < this.height - 24;
  }

  touches({ x, y }, margin) {
    return x > -margin && x < this.width + margin && y > -margin && y < this.height + margin;
  }
}

export function clamp(value, low, high) {
  return Math.min(high, Math.max(low, value));
}
