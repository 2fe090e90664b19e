// Packing of ray samples into slots: the first slot of each ray, which rays fit, and the number of
// slots per ray.

// ray_start[r] is the total number of samples of the rays before r, limited so that the first ray with
// samples beyond slots[0] and all later rays have no slots. A single threadgroup computes all
// elements. Each of its threads processes a range of consecutive rays. space has two integers for
// each simdgroup.
template <typename Counts, typename Slots, typename RayStart, typename Space>
METAL_FUNC void packing_starts(
    uint3 thread_index, int rays, Counts counts, Slots slots, RayStart ray_start, Space space) {
  const int local = int(thread_index.x), simdgroup = local / SIMD_WIDTH;
  const int own = (rays + SIMD_WIDTH * GROUP_SIMDGROUPS - 1) / (SIMD_WIDTH * GROUP_SIMDGROUPS);
  const int first = min(local * own, rays), last = min(first + own, rays);
  int sum = 0;
  for (int ray = first; ray < last; ++ray) sum += counts[ray];
  int before = simd_prefix_exclusive_sum(sum);  // samples of earlier rays
  const int all = simd_sum(sum);
  if (local % SIMD_WIDTH == 0) space[simdgroup] = all;
  threadgroup_publish();
  for (int i = 0; i < simdgroup; ++i) before += space[i];
  int end = before, fitting = 0;  // samples of rays that fit
  for (int ray = first; ray < last; ++ray) {
    end += counts[ray];
    if (end <= slots[0]) fitting += counts[ray];
  }
  fitting = simd_sum(fitting);
  if (local % SIMD_WIDTH == 0) space[GROUP_SIMDGROUPS + simdgroup] = fitting;
  threadgroup_publish();
  int used = 0;
  for (int i = 0; i < GROUP_SIMDGROUPS; ++i) used += space[GROUP_SIMDGROUPS + i];
  if (local == 0) ray_start[0] = 0;
  end = before;
  for (int ray = first; ray < last; ++ray) {
    end += counts[ray];
    ray_start[ray + 1] = min(end, used);
  }
}

// fits[r] is 1 if ray r has the wanted number of slots, and otherwise 0. There is one thread per ray.
template <typename RayStart, typename Wanted, typename Fits>
METAL_FUNC void packing_fits(
    uint3 thread_index, int rays, RayStart ray_start, Wanted wanted, Fits fits) {
  const int ray = int(thread_index.x);
  if (ray >= rays) return;
  fits[ray] = ray_start[ray + 1] - ray_start[ray] == wanted[ray] ? 1.0f : 0.0f;
}

// Returns how many ends are at most `most`. ends[r] is the total number of samples of the rays 0 to
// r, so ends never decreases.
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
