// The rows of a tile, if they are neighbors: `count` rows from row `first` on. A tile always has
// sixteen rows, even if `count` is larger.
struct TileBlock {
  int first, count;
  METAL_FUNC int operator[](int row) const { return first + row; }
};
