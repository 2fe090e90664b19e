// The rows of a tile that are neighbours: `count` of them from row `first` on, or sixteen if those are
// more.
struct TileBlock {
  int first, count;
  METAL_FUNC int operator[](int row) const { return first + row; }
};
