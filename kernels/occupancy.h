// The occupancy grid's geometry: cascade c is a cube of side 2^c around (0.5, 0.5, 0.5), cut into
// RESOLUTION cells along each axis. A point belongs to the smallest cascade that holds it. Cells are
// numbered x fastest, then y, z, cascade; 32 cells share a word of the bit field.

template <int RESOLUTION>
struct OccupancyCell {
  float3 place;  // position in units of cells, from the cascade's lowest corner
  float side;    // a cell's side, in scene units
  int index;     // the cell's number; -1 outside every cascade
};

template <int RESOLUTION, int CASCADES>
METAL_FUNC OccupancyCell<RESOLUTION> occupancy_cell(float3 position) {
  const float3 offset = position - float3{0.5f, 0.5f, 0.5f};
  const float reach = max(max(abs(offset.x), abs(offset.y)), abs(offset.z));
  int cascade = 0;
  float size = 1.0f;
  while (cascade < CASCADES && reach >= 0.5f * size) {
    ++cascade;
    size *= 2.0f;
  }
  OccupancyCell<RESOLUTION> cell;
  cell.side = size / RESOLUTION;
  cell.place = (offset + float3{0.5f * size, 0.5f * size, 0.5f * size}) * (RESOLUTION / size);
  const int x = min(max(int(cell.place.x), 0), RESOLUTION - 1);
  const int y = min(max(int(cell.place.y), 0), RESOLUTION - 1);
  const int z = min(max(int(cell.place.z), 0), RESOLUTION - 1);
  const int index = ((cascade * RESOLUTION + z) * RESOLUTION + y) * RESOLUTION + x;
  cell.index = cascade < CASCADES ? index : -1;
  return cell;
}
