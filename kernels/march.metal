#include "occupancy.h"

// Marching rays through the occupancy grid: a first pass counts each ray's samples in occupied
// cells, a second one writes them into the slots that the counts leave it.
//
// A ray is cut into intervals whose ends are whole numbers of steps. Steps have the length `step`
// near the camera and grow with distance, by the factor 1 + cone, from the distance step / cone on;
// so interval k is known without having walked through the ones before it, and empty cells are
// crossed in one stride. The sample lies at the same fraction, `jitter`, of each interval.
//
// settings = [extent, near, step, cone, resolution, cascades]; the scene is a cube of side extent
// around (0.5, 0.5, 0.5), the last two are the occupancy grid's.

METAL_FUNC float march_number(float distance, float step, float cone) {
  if (cone * distance <= step) return distance / step;
  return (1.0f + log(cone * distance / step) * (cone / log(1.0f + cone))) / cone;
}

METAL_FUNC float march_distance(float number, float step, float cone) {
  if (cone * number <= 1.0f) return number * step;
  return step / cone * exp((cone * number - 1.0f) * (log(1.0f + cone) / cone));
}

struct MarchRay {
  float3 origin, direction;
  float first;    // number at which interval 0 begins
  float jitter;   // where in its interval a sample lies, in [0, 1)
  int intervals;  // how many intervals have their sample inside the scene's cube
};

template <typename Origins, typename Directions, typename Jitter, typename Settings>
METAL_FUNC MarchRay march_ray(
    uint ray, Origins origins, Directions directions, Jitter jitter, Settings settings) {
  MarchRay r;
  r.origin = float3{origins[3 * ray], origins[3 * ray + 1], origins[3 * ray + 2]};
  r.direction = float3{directions[3 * ray], directions[3 * ray + 1], directions[3 * ray + 2]};
  r.jitter = jitter[ray];
  const float half_side = 0.5f * settings[0], step = settings[2], cone = settings[3];
  float enter = settings[1], leave = 1e9f;
  for (int axis = 0; axis < 3; ++axis) {
    const float origin = origins[3 * ray + axis] - 0.5f, slope = directions[3 * ray + axis];
    if (abs(slope) < 1e-9f) {
      // A ray along a face: inside its two planes everywhere or nowhere.
      if (abs(origin) > half_side) leave = -1.0f;
    } else {
      const float a = (-half_side - origin) / slope, b = (half_side - origin) / slope;
      enter = max(enter, min(a, b));
      leave = min(leave, max(a, b));
    }
  }
  r.first = march_number(enter, step, cone);
  const float room = march_number(leave, step, cone) - r.first;
  r.intervals = leave > enter ? int(ceil(room - r.jitter)) : 0;
  return r;
}

// Steps k on to the first interval not before `k` whose sample lies in an occupied cell; returns
// r.intervals when there is none.
template <typename Bits, typename Settings>
METAL_FUNC int march_next(MarchRay r, int k, Bits bits, Settings settings) {
  const float step = settings[2], cone = settings[3];
  while (k < r.intervals) {
    const float distance = march_distance(r.first + r.jitter + float(k), step, cone);
    const float3 position = r.origin + r.direction * distance;
    const OccupancyCell cell = occupancy_cell(position, int(settings[4]), int(settings[5]));
    if (cell.index < 0) {
      ++k;
      continue;
    }
    if ((bits[cell.index >> 5] >> (cell.index & 31)) & 1) return k;
    // Leave the empty cell: the nearest of the three faces ahead.
    const float place[3] = {cell.place.x, cell.place.y, cell.place.z};
    const float slope[3] = {r.direction.x, r.direction.y, r.direction.z};
    float ahead = 1e9f;
    for (int axis = 0; axis < 3; ++axis) {
      const float face = floor(place[axis]) + (slope[axis] > 0.0f ? 1.0f : 0.0f);
      if (abs(slope[axis]) > 1e-9f) ahead = min(ahead, (face - place[axis]) / slope[axis]);
    }
    const float number = march_number(distance + ahead * cell.side, step, cone);
    // A thousandth early rather than late: a sample on the face belongs to the next cell.
    k = max(k + 1, int(ceil(number - r.first - r.jitter - 1e-3f)));
  }
  return r.intervals;
}

template <typename Origins, typename Directions, typename Jitter,
          typename Bits, typename Settings, typename Counts>
METAL_FUNC void march_count(
    uint3 thread_index, int rays, Origins origins, Directions directions, Jitter jitter, Bits bits,
    Settings settings, Counts counts) {
  const uint ray = thread_index.x;
  if (ray >= uint(rays)) return;
  const MarchRay r = march_ray(ray, origins, directions, jitter, settings);
  int count = 0;
  int k = march_next(r, 0, bits, settings);
  while (k < r.intervals) {
    ++count;
    k = march_next(r, k + 1, bits, settings);
  }
  counts[ray] = count;
}

// A ray leaves out its first skip[ray] samples. Slots that no ray owns keep the zeros they start
// from.
template <typename Origins, typename Directions, typename Jitter,
          typename Bits, typename Settings, typename RayStart, typename Skip, typename Positions,
          typename Distances, typename Widths, typename RayOf>
METAL_FUNC void march_write(
    uint3 thread_index, int rays, Origins origins, Directions directions, Jitter jitter, Bits bits,
    Settings settings, RayStart ray_start, Skip skip, Positions positions, Distances distances,
    Widths widths, RayOf ray_of) {
  const uint ray = thread_index.x;
  if (ray >= uint(rays)) return;
  const MarchRay r = march_ray(ray, origins, directions, jitter, settings);
  const float step = settings[2], cone = settings[3];
  int k = -1;
  for (int i = 0; i < skip[ray]; ++i) {
    k = march_next(r, k + 1, bits, settings);
  }
  for (int slot = ray_start[ray]; slot < ray_start[ray + 1]; ++slot) {
    k = march_next(r, k + 1, bits, settings);
    const float begin = r.first + float(k);
    const float distance = march_distance(begin + r.jitter, step, cone);
    const float3 position = r.origin + r.direction * distance;
    positions[3 * slot] = position.x;
    positions[3 * slot + 1] = position.y;
    positions[3 * slot + 2] = position.z;
    distances[slot] = distance;
    widths[slot] = march_distance(begin + 1.0f, step, cone) - march_distance(begin, step, cone);
    ray_of[slot] = int(ray);
  }
}
