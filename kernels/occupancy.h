#include "bounds.h"

// Geometry of the occupancy grid. Cascade c is a cube with side length 2^c around (0.5, 0.5, 0.5),
// divided into `resolution` cells along each axis. A point belongs to the smallest cascade that
// contains it.
//
// Cells are numbered brick by brick. A brick has 4 x 4 x 2 cells, and its bits are one word. Within
// a brick, the index of a cell increases along x first, then along y, and then along z. The bricks
// of a cascade have the same order. The indices of a cascade follow the indices of the previous
// cascade. If there are several cascades, `resolution` is a multiple of 16, so that no brick is
// partly inside a smaller cascade.

struct OccupancyCell {
  float3 place;  // position in cells, relative to the cascade's lowest corner
  float side;    // a cell's side, in scene units
  int index;     // index of the cell, or -1 outside all cascades
};

METAL_FUNC OccupancyCell occupancy_cell(float3 position, int resolution, int cascades) {
  const float3 offset = bounds_offset(position);
  const float reach = bounds_farthest(offset);
  int cascade = 0;
  float size = 1.0f, cells = float(resolution);  // side of the cascade; cells per unit of length
  while (cascade < cascades && reach >= 0.5f * size) {
    ++cascade;
    size *= 2.0f;
    cells *= 0.5f;
  }
  OccupancyCell cell;
  cell.side = size / float(resolution);
  cell.place = (offset + float3{0.5f * size, 0.5f * size, 0.5f * size}) * cells;
  const int x = min(max(int(cell.place.x), 0), resolution - 1);
  const int y = min(max(int(cell.place.y), 0), resolution - 1);
  const int z = min(max(int(cell.place.z), 0), resolution - 1);
  const int across = resolution / BRICK_WIDTH, deep = resolution / BRICK_DEPTH;  // in bricks
  const int brick = ((cascade * deep + z / BRICK_DEPTH) * across + y / BRICK_WIDTH) * across +
                    x / BRICK_WIDTH;
  const int within = (z % BRICK_DEPTH * BRICK_WIDTH + y % BRICK_WIDTH) * BRICK_WIDTH +
                     x % BRICK_WIDTH;
  cell.index = cascade < cascades ? BRICK_CELLS * brick + within : -1;
  return cell;
}

struct OccupancyPlace {
  float size;   // side of the cascade, in scene units
  int x, y, z;  // place of the cell in the cascade, in cells
};

// Returns the place of the cell with a given index. Inverse of the index in `occupancy_cell`.
METAL_FUNC OccupancyPlace occupancy_place(int index, int resolution) {
  const int across = resolution / BRICK_WIDTH, deep = resolution / BRICK_DEPTH;  // in bricks
  const int within = index % BRICK_CELLS, brick = index / BRICK_CELLS;
  const int row = brick / across, layer = row / across;
  OccupancyPlace place;
  place.size = float(1 << (layer / deep));
  place.x = brick % across * BRICK_WIDTH + within % BRICK_WIDTH;
  place.y = row % across * BRICK_WIDTH + within / BRICK_WIDTH % BRICK_WIDTH;
  place.z = layer % deep * BRICK_DEPTH + within / (BRICK_WIDTH * BRICK_WIDTH);
  return place;
}
