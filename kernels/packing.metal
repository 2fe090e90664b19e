// Packing of ray samples into slots: the first slot of each ray, which rays fit, and the number of
// slots per ray.
//
// ends[r] is the total number of samples of the rays 0 to r, so ends never decreases.

// Returns how many ends are at most `most`.
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

// ray_start[r] = ends[r - 1], limited so that the first ray with samples beyond slots[0] and all
// later rays have no slots. There is one thread per element of ray_start.
template <typename Ends, typename Slots, typename RayStart>
METAL_FUNC void packing_starts(
    uint3 thread_index, int rays, Ends ends, Slots slots, RayStart ray_start) {
  const int i = int(thread_index.x);
  if (i > rays) return;
  int fitting = i;
  if (i > 0 && ends[i - 1] > slots[0]) fitting = packing_count(ends, rays, slots[0]);
  ray_start[i] = fitting > 0 ? ends[fitting - 1] : 0;
}

// fits[r] is 1 if ray r has the wanted number of slots, and otherwise 0. There is one thread per ray.
template <typename RayStart, typename Wanted, typename Fits>
METAL_FUNC void packing_fits(
    uint3 thread_index, int rays, RayStart ray_start, Wanted wanted, Fits fits) {
  const int ray = int(thread_index.x);
  if (ray >= rays) return;
  fits[ray] = ray_start[ray + 1] - ray_start[ray] == wanted[ray] ? 1.0f : 0.0f;
}

// samples_per_ray[0] = max(mean(kept), mean(marched) slots / capacity), over the rays with a first
// marched sample within the capacity. sizes = [capacity, slots]. The kernel uses a single thread.
template <typename MarchedEnds, typename KeptEnds, typename Sizes, typename SamplesPerRay>
METAL_FUNC void packing_samples_per_ray(
    uint3 thread_index, int rays, MarchedEnds marched_ends, KeptEnds kept_ends, Sizes sizes,
    SamplesPerRay samples_per_ray) {
  if (thread_index.x > 0 || rays == 0) return;
  const int begun = min(packing_count(marched_ends, rays, sizes[0]) + 1, rays);
  const float kept = float(kept_ends[begun - 1]), marched = float(marched_ends[begun - 1]);
  samples_per_ray[0] = max(kept, marched * (float(sizes[1]) / float(sizes[0]))) / float(begun);
}
