// Rows of a tile that are consecutive: `count` rows, beginning with row `first`. A tile always has
// sixteen rows, even if `count` is larger.
struct TileBlock {
  int first, count;
  METAL_FUNC int operator[](int row) const { return first + row; }
};
