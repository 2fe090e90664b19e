// Packing rays' samples into slots: where each ray's begin, and how many slots a ray takes.
//
// ends[r] is how many samples ray r and those before it have: it never decreases.

// How many of the ends are at most `most`.
template <typename Ends>
METAL_FUNC int packing_count(Ends ends, int rays, int most) {
  int low = 0, high = rays;  // the count is one of these
  while (low < high) {
    const int middle = (low + high) / 2;
    if (ends[middle] <= most) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// ray_start[r] = ends[r - 1], and from the first ray on that ends past slots[0], where that one
// would begin: it and all after it get no slots. One thread an element of ray_start.
template <typename Ends, typename Slots, typename RayStart>
METAL_FUNC void packing_starts(
    uint3 thread_index, int rays, Ends ends, Slots slots, RayStart ray_start) {
  const int i = int(thread_index.x);
  if (i > rays) return;
  int fitting = i;
  if (i > 0 && ends[i - 1] > slots[0]) fitting = packing_count(ends, rays, slots[0]);
  ray_start[i] = fitting > 0 ? ends[fitting - 1] : 0;
}

// demand[0] = how many of the slots a ray takes in the mean, over the rays that begin in the room:
// those that it keeps, or its part of the room for trying in proportion, if that is more.
// sizes = [room, slots]. One thread.
template <typename TriedEnds, typename KeptEnds, typename Sizes, typename Demand>
METAL_FUNC void packing_demand(
    uint3 thread_index, int rays, TriedEnds tried_ends, KeptEnds kept_ends, Sizes sizes,
    Demand demand) {
  if (thread_index.x > 0 || rays == 0) return;
  const int begun = min(packing_count(tried_ends, rays, sizes[0]) + 1, rays);
  const float kept = float(kept_ends[begun - 1]), tried = float(tried_ends[begun - 1]);
  demand[0] = max(kept, tried * (float(sizes[1]) / float(sizes[0]))) / float(begun);
}
