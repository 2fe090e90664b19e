// A tile's rows where they are neighbors: `count` of them from row `first` on. A tile holds
// sixteen, even if `count` is larger.
struct TileBlock {
  int first, count;
  METAL_FUNC int operator[](int row) const { return first + row; }
};
