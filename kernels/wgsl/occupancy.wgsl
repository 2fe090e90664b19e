// The occupancy grid's geometry; kernels/occupancy.h in WGSL.

@group(0) @binding(3) var<storage, read> bits: array<u32>;

struct OccupancyCell {
  place: vec3<f32>,  // position in units of cells, from the cascade's lowest corner
  side: f32,         // a cell's side, in scene units
  cascade: i32,
  index: i32,        // the cell's number; -1 outside every cascade
}

fn occupancy_cell(position: vec3<f32>) -> OccupancyCell {
  let offset = position - bounds_center;
  let reach = max(max(abs(offset.x), abs(offset.y)), abs(offset.z));
  let resolution = march.resolution;
  var cascade = 0;
  var size = 1.0;
  while (cascade < march.cascades && reach >= 0.5 * size) {
    cascade++;
    size *= 2.0;
  }
  var cell: OccupancyCell;
  cell.side = size / f32(resolution);
  cell.cascade = cascade;
  cell.place = (offset + 0.5 * size) * (f32(resolution) / size);
  let at = clamp(vec3<i32>(cell.place), vec3(0), vec3(resolution - 1));
  let across = resolution / BRICK_WIDTH;  // in bricks
  let deep = resolution / BRICK_DEPTH;
  let brick = ((cascade * deep + at.z / BRICK_DEPTH) * across + at.y / BRICK_WIDTH) * across
    + at.x / BRICK_WIDTH;
  let within = (at.z % BRICK_DEPTH * BRICK_WIDTH + at.y % BRICK_WIDTH) * BRICK_WIDTH
    + at.x % BRICK_WIDTH;
  cell.index = select(-1, BRICK_CELLS * brick + within, cascade < march.cascades);
  return cell;
}
