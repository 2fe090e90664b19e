// The rows of a tile that are neighbours: `count` of them, sixteen or fewer, from row `first` on;
// more than sixteen count for sixteen.
struct TileBlock {
  int first, count;
  METAL_FUNC int operator[](int row) const { return first + row; }
};
