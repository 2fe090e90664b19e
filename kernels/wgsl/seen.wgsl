// Fading of density where few photos see the scene. Beyond the photos, cells of the occupancy grid
// are empty, and the faces of these cells would be visible.

// For each cell of each cascade, four bits for each corner, x first: 15 if photos see the corner.
@group(0) @binding(6) var<storage, read> seen: array<u32>;

const SEEN_MOST = 15u;

// How much of a position photos see, from 0 to 1, interpolated between the corners of its cell.
fn seen_part(cell: OccupancyCell) -> f32 {
  let place = cell.place * (f32(SEEN_CELLS) / f32(march.resolution));
  let at = min(vec3<u32>(place), vec3(SEEN_CELLS - 1));
  let row = (u32(cell.cascade) * SEEN_CELLS + at.z) * SEEN_CELLS + at.y;
  let corners = vec4(seen[row * SEEN_CELLS + at.x]);
  let part = place - vec3<f32>(at);
  let low = vec4<f32>((corners >> vec4(0u, 4u, 8u, 12u)) & vec4(SEEN_MOST));
  let high = vec4<f32>((corners >> vec4(16u, 20u, 24u, 28u)) & vec4(SEEN_MOST));
  let level = mix(low, high, part.z);
  let line = mix(level.xy, level.zw, part.y);
  return mix(line.x, line.y, part.x) / f32(SEEN_MOST);
}

// The maximum density at a position: a cell of this density has the opacity `seen_part`. A factor
// on the density would not fade surfaces, which are opaque even at a small part of their density.
fn seen_density(position: vec3<f32>) -> f32 {
  let cell = occupancy_cell(position);
  let part = seen_part(cell);
  return select(-log(1.0 - part) / cell.side, 1e30, part > 0.999);
}
