/**
 * Triangulation of a grid of vertices, with few triangles where the values are planar.
 *
 * The grid is halved recursively until the values in each rectangle are on a plane or the rectangle
 * is a single cell. Each rectangle becomes a polygon that includes the corners of other
 * rectangles on its sides. Adjacent polygons therefore share their vertices, and the surface has no
 * cracks.
 */

const FLAT = 0.02; // maximum deviation from a plane, as a fraction of the value at its center

/** Vertex indices (uint32, three per triangle) for the `values` (rows x columns, row by row). */
export function trianglesOf(values, columns, rows) {
  const rectangles = [];
  const split = (left, right, top, bottom) => {
    const [width, height] = [right - left, bottom - top];
    if (isFlat(values, columns, left, right, top, bottom)) {
      rectangles.push([left, right, top, bottom]);
    } else if (width >= height) {
      const middle = left + (width >> 1);
      split(left, middle, top, bottom);
      split(middle, right, top, bottom);
    } else {
      const middle = top + (height >> 1);
      split(left, right, top, middle);
      split(left, right, middle, bottom);
    }
  };
  // The outermost cells are not squares, so the cells of each side form a separate rectangle.
  const [across, down] = [[0, 1, columns - 2, columns - 1], [0, 1, rows - 2, rows - 1]];
  for (let j = 0; j < 3; j += 1) {
    for (let i = 0; i < 3; i += 1) split(across[i], across[i + 1], down[j], down[j + 1]);
  }
  return fansOf(rectangles, columns, rows);
}

/** Return whether the values of a rectangle are on a plane up to FLAT. True for a single cell. */
function isFlat(values, columns, left, right, top, bottom) {
  const [width, height] = [right - left, bottom - top];
  if (width === 1 && height === 1) return true;
  const [first, last] = [top * columns, bottom * columns];
  const [a, b] = [values[first + left], values[first + right]];
  const [c, d] = [values[last + left], values[last + right]];
  const most = FLAT * (a + b + c + d) / 4;
  const slopeX = (b + d - a - c) / 2 / width;
  const slopeY = (c + d - a - b) / 2 / height;
  const corner = (3 * a + b + c - d) / 4; // of the plane
  for (let y = 0; y <= height; y += 1) {
    let plane = corner + slopeY * y;
    for (let at = (top + y) * columns + left; at <= (top + y) * columns + right; at += 1) {
      if (Math.abs(values[at] - plane) > most) return false;
      plane += slopeX;
    }
  }
  return true;
}

/** Return the triangles of polygons from `rectangles`, [left, right, top, bottom] each. */
function fansOf(rectangles, columns, rows) {
  const isCorner = new Uint8Array(columns * rows);
  for (const [left, right, top, bottom] of rectangles) {
    for (const row of [top, bottom]) {
      isCorner[row * columns + left] = isCorner[row * columns + right] = 1;
    }
  }
  const indices = [];
  for (const [left, right, top, bottom] of rectangles) {
    const first = top * columns + left;
    const corners = [first, first + right - left, bottom * columns + right, bottom * columns + left];
    let before = null; // the previous vertex of the polygon
    corners.forEach((from, side) => {
      const to = corners[(side + 1) % 4];
      const step = [1, columns, -1, -columns][side];
      for (let at = from; at !== to; at += step) {
        if (!isCorner[at]) continue;
        if (before !== null && before !== first) indices.push(first, before, at);
        before = at;
      }
    });
  }
  return new Uint32Array(indices);
}
