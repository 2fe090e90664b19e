#include "occupancy.h"
#include "slots.h"

// Ray marching through the occupancy grid. A first pass counts the samples of each ray in occupied
// cells. A second pass writes the samples into the slots that the counts determine.
//
// A ray is divided into intervals, one per step. Near the camera, steps have the length `step`.
// Beyond the distance step / cone, each step is 1 + cone times as long as the previous one. The
// position of interval k has a closed form, so a ray can skip an empty cell or brick in one stride
// instead of step by step. In every interval of a ray, the sample is at the fraction `jitter` of
// the interval.
//
// settings = [extent, near, step, cone, log(1 + cone), resolution, cascades]. The resolution and
// the number of cascades are properties of the occupancy grid.

struct MarchSettings {
  float extent, near, step, cone, growth;
  int resolution, cascades;
  float per_step;  // 1 / step
};

template <typename Settings>
METAL_FUNC MarchSettings march_settings(Settings settings) {
  return MarchSettings{settings[0], settings[1],      settings[2],      settings[3],
                       settings[4], int(settings[5]), int(settings[6]), 1.0f / settings[2]};
}

// The first function returns the number of steps up to a distance, as a real number, and the second
// is its inverse. Both use precise math, because the counting pass and the writing pass must agree.
METAL_FUNC float march_number(float distance, MarchSettings to) {
  if (to.cone * distance <= to.step) return distance / to.step;
  return (1.0f + precise::log(to.cone * distance / to.step) * (to.cone / to.growth)) / to.cone;
}

METAL_FUNC float march_distance(float number, MarchSettings to) {
  if (to.cone * number <= 1.0f) return number * to.step;
  return to.step / to.cone * precise::exp((to.cone * number - 1.0f) * (to.growth / to.cone));
}

struct MarchRay {
  float3 origin, direction;
  float3 inverse;  // of the direction
  float first;    // march_number at the beginning of interval 0
  float jitter;   // position of a sample in its interval, in [0, 1)
  float leave;    // distance at which the ray leaves the scene cube
  int intervals;  // number of intervals with a sample inside the scene cube
};

// Returns the reciprocal of a direction component. If the ray is parallel to the cell faces of the
// axis, the reciprocal is so large that the ray never reaches them.
METAL_FUNC float march_inverse(float slope) {
  return abs(slope) > PARALLEL_SLOPE ? 1.0f / slope : FAR_DISTANCE;
}

template <typename Origins, typename Directions, typename Jitter>
METAL_FUNC MarchRay march_ray(
    uint ray, Origins origins, Directions directions, Jitter jitter, MarchSettings settings) {
  MarchRay r;
  r.origin = float3{origins[3 * ray], origins[3 * ray + 1], origins[3 * ray + 2]};
  r.direction = float3{directions[3 * ray], directions[3 * ray + 1], directions[3 * ray + 2]};
  r.jitter = jitter[ray];
  r.inverse = float3{march_inverse(r.direction.x), march_inverse(r.direction.y),
                     march_inverse(r.direction.z)};
  float enter = settings.near, leave = FAR_DISTANCE;
  bounds_clip(r.origin.x, r.direction.x, settings.extent, enter, leave);
  bounds_clip(r.origin.y, r.direction.y, settings.extent, enter, leave);
  bounds_clip(r.origin.z, r.direction.z, settings.extent, enter, leave);
  r.leave = leave;
  r.first = march_number(enter, settings);
  const float room = march_number(leave, settings) - r.first;
  r.intervals = leave > enter ? int(ceil(room - r.jitter)) : 0;
  return r;
}

struct MarchProbe {
  float distance;  // of the interval's sample
  bool is_sample;  // whether the sample is in an occupied cell
  int next;        // next interval that may have a sample
};

// Returns the distance along the ray, in cells, to the next face of an empty cell or brick along
// one axis. `side` is the width of the cell or brick in cells, a power of two.
METAL_FUNC float march_ahead(float place, float inverse, float side) {
  return ((floor(place * (1.0f / side)) + (inverse > 0.0f ? 1.0f : 0.0f)) * side - place) * inverse;
}

// A point on a ray: whether its cell is occupied and, if not, how far the empty space extends.
struct MarchPoint {
  bool is_inside;    // whether the point is inside the scene cube
  bool is_occupied;
  float ahead;       // distance to the nearest face ahead of the empty cell or, if its whole brick is
                     // empty, of the brick; 0 in an occupied cell and outside the cube
};

template <typename Bits>
METAL_FUNC MarchPoint march_point(MarchRay r, float distance, Bits bits, MarchSettings settings) {
  MarchPoint point;
  const float3 position = r.origin + r.direction * distance;
  const OccupancyCell cell = occupancy_cell(position, settings.resolution, settings.cascades);
  point.is_inside = cell.index >= 0;
  point.is_occupied = false;
  point.ahead = 0.0f;
  if (!point.is_inside) return point;
  const uint number = uint(cell.index), word = bits[number / BRICK_CELLS];
  point.is_occupied = (word >> (number % BRICK_CELLS)) & 1;
  if (point.is_occupied) return point;
  const float width = word == 0 ? float(BRICK_WIDTH) : 1.0f;
  const float depth = word == 0 ? float(BRICK_DEPTH) : 1.0f;
  point.ahead = cell.side * min(min(march_ahead(cell.place.x, r.inverse.x, width),
                                    march_ahead(cell.place.y, r.inverse.y, width)),
                                march_ahead(cell.place.z, r.inverse.z, depth));
  return point;
}

// Returns the distance of the sample of interval k.
METAL_FUNC float march_sample(MarchRay r, int k, MarchSettings settings) {
  return march_distance(r.first + r.jitter + float(k), settings);
}

// Returns the first interval after interval k whose sample is at the distance `reached` or farther.
// The result is 0.001 steps early rather than late, because a sample on a face belongs to the cell
// behind the face.
METAL_FUNC int march_next(MarchRay r, int k, float reached, MarchSettings settings) {
  const float strides = march_number(reached, settings) - r.first - r.jitter - float(k);
  return k + max(1, int(ceil(strides - 1e-3f)));
}

template <typename Bits>
METAL_FUNC MarchProbe march_probe(MarchRay r, int k, Bits bits, MarchSettings settings) {
  MarchProbe probe;
  probe.distance = march_sample(r, k, settings);
  probe.is_sample = false;
  probe.next = k + 1;
  if (k >= r.intervals) return probe;
  const MarchPoint point = march_point(r, probe.distance, bits, settings);
  probe.is_sample = point.is_occupied;
  if (!point.is_inside || point.is_occupied) return probe;
  const float reached = probe.distance + point.ahead;
  // With a constant step length, one product is sufficient. Strides are sequential, so latency
  // matters.
  probe.next = settings.cone * reached <= settings.step
                   ? k + max(1, int(ceil(point.ahead * settings.per_step - 1e-3f)))
                   : march_next(r, k, reached, settings);
  return probe;
}

// Advances k to the next sample of the ray, and returns the distance of the sample, or 0 after the
// last sample. Empty cells are crossed from face to face without computing the numbers of intervals,
// which need a logarithm and an exponential. After each face, the ray advances by `nudge` into the
// next cell. If the rounded position is still in the face, because the ray is nearly parallel to it,
// the search continues with the next interval.
template <typename Bits>
METAL_FUNC float march_search(MarchRay r, thread int& k, Bits bits, MarchSettings settings) {
  while (k < r.intervals) {
    const float distance = march_sample(r, k, settings);
    MarchPoint point = march_point(r, distance, bits, settings);
    if (point.is_occupied) return distance;
    float reached = distance;
    while (point.ahead > 0.0f && reached < r.leave) {
      reached += point.ahead;
      const float nudge = max(1e-3f * max(settings.step, settings.cone * reached), 1e-6f * reached);
      point = march_point(r, reached + nudge, bits, settings);
      if (!point.is_occupied) reached += nudge;
    }
    if (!point.is_occupied && !(point.is_inside && reached < r.leave)) break;
    k = march_next(r, k, reached, settings);
  }
  k = r.intervals;
  return 0.0f;
}

// Returns the interval at which a simdgroup continues after it has probed the intervals k to k +
// SIMD_WIDTH - 1. If the last of them is in an empty cell, the simdgroup continues after this cell.
METAL_FUNC int march_on(int k, MarchProbe probe) {
  return max(k + SIMD_WIDTH, simd_broadcast(probe.next, SIMD_WIDTH - 1));
}

// A simdgroup counts the samples of INTERLEAVED rays together and alternates between them after
// each stride. Each stride of a ray depends on the previous one, and strides of other rays hide
// this latency. thread_index = (simdgroup * SIMD_WIDTH + lane, 0, 0).
template <int INTERLEAVED, typename Origins, typename Directions, typename Jitter, typename Bits,
          typename Settings, typename Counts>
METAL_FUNC void march_count(
    uint3 thread_index, int rays, Origins origins, Directions directions, Jitter jitter, Bits bits,
    Settings settings, Counts counts) {
  const int first = int(thread_index.x / SIMD_WIDTH) * INTERLEAVED;
  const int lane = int(thread_index.x % SIMD_WIDTH);
  const int together = min(rays - first, INTERLEAVED);
  const MarchSettings to = march_settings(settings);
  MarchRay r[INTERLEAVED];
  int k[INTERLEAVED], count[INTERLEAVED];
  UNROLL
  for (int i = 0; i < INTERLEAVED; ++i) {
    r[i].intervals = 0;
    if (i < together) r[i] = march_ray(first + i, origins, directions, jitter, to);
    k[i] = count[i] = 0;
  }
  for (bool is_on = true; is_on;) {
    is_on = false;
    UNROLL
    for (int i = 0; i < INTERLEAVED; ++i) {
      if (k[i] >= r[i].intervals) continue;
      const MarchProbe probe = march_probe(r[i], k[i] + lane, bits, to);
      count[i] += simd_sum(int(probe.is_sample));
      k[i] = march_on(k[i], probe);
      is_on = true;
    }
  }
  UNROLL
  for (int i = 0; i < INTERLEAVED; ++i) {
    if (i < together && lane == i % SIMD_WIDTH) counts[first + i] = count[i];
  }
}

// A simdgroup writes the samples of one ray. slots[0] is the number of slots. Zeros are written to
// unused slots and to slots of a ray for which no sample is found. This can happen because the
// counting pass is compiled separately: its rounding may differ, so it may count one sample more.
template <typename Origins, typename Directions, typename Jitter, typename Bits, typename Settings,
          typename RayStart, typename Slots, typename Positions, typename Distances,
          typename Widths, typename RayOf>
METAL_FUNC void march_write(
    uint3 thread_index, int rays, Origins origins, Directions directions, Jitter jitter, Bits bits,
    Settings settings, RayStart ray_start, Slots slots, Positions positions,
    Distances distances, Widths widths, RayOf ray_of) {
  const uint ray = thread_index.x / SIMD_WIDTH;
  const int lane = int(thread_index.x % SIMD_WIDTH);
  if (ray >= uint(rays)) return;
  for (int slot = ray_start[rays] + int(thread_index.x); slot < slots[0];
       slot += rays * SIMD_WIDTH) {
    slots_clear(slot, positions, distances, widths, ray_of);
  }
  const MarchSettings to = march_settings(settings);
  const MarchRay r = march_ray(ray, origins, directions, jitter, to);
  const int end = ray_start[ray + 1];
  int first = ray_start[ray];  // slot of the next sample
  for (int k = 0; k < r.intervals && first < end;) {
    const MarchProbe probe = march_probe(r, k + lane, bits, to);
    const int slot = first + simd_prefix_exclusive_sum(int(probe.is_sample));
    if (probe.is_sample && slot < end) {
      const float3 position = r.origin + r.direction * probe.distance;
      positions[3 * slot] = position.x;
      positions[3 * slot + 1] = position.y;
      positions[3 * slot + 2] = position.z;
      distances[slot] = probe.distance;
      const float number = r.first + float(k + lane);
      widths[slot] = march_distance(number + 1.0f, to) - march_distance(number, to);
      ray_of[slot] = int(ray);
    }
    first += simd_sum(int(probe.is_sample));
    k = march_on(k, probe);
  }
  for (int slot = first + lane; slot < end; slot += SIMD_WIDTH) {
    slots_clear(slot, positions, distances, widths, ray_of);
  }
}

// Marks the cells of all samples that a ray would have up to the distance until[ray] if all cells
// were occupied. There is one thread per ray, and `visible` is initialized to zero.
template <typename Origins, typename Directions, typename Jitter, typename Until, typename Settings,
          typename Visible>
METAL_FUNC void march_visible(
    uint3 thread_index, int rays, Origins origins, Directions directions, Jitter jitter,
    Until until, Settings settings, Visible visible) {
  const uint ray = thread_index.x;
  if (ray >= uint(rays)) return;
  const MarchSettings to = march_settings(settings);
  const MarchRay r = march_ray(ray, origins, directions, jitter, to);
  const float end = until[ray];
  int last = -1;  // cell of the previous step, because most steps are in the same cell
  for (int k = 0; k < r.intervals; ++k) {
    const float distance = march_distance(r.first + r.jitter + float(k), to);
    if (distance > end) return;
    const float3 position = r.origin + r.direction * distance;
    const int cell = occupancy_cell(position, to.resolution, to.cascades).index;
    if (cell >= 0 && cell != last) {
      atomic_fetch_max_explicit(&visible[cell], 1u, memory_order_relaxed);
    }
    last = cell;
  }
}
