#include "march.metal"
#include "hash_encode.metal"
#include "spherical_harmonics.metal"
#include "networks.metal"

// Tracing of whole rays in one pass: marching, encoding, networks, and compositing, until the
// transmittance is below RENDER_STOP_TRANSMITTANCE.
//
// A simdgroup traces TRACE_RAYS rays at once and processes one sample of each ray at a time, so
// that the tiles of the networks are full. A simdgroup has a queue of TRACE_QUEUE neighboring rays
// of the image. When a ray ends, the next ray in the queue replaces it.

// Returns the number of simdgroups per threadgroup: as many as fit in threadgroup memory.
constexpr int trace_simdgroups(int in) {
  return in > NARROW_TRACE_FEATURES && TILE_SIMDGROUPS > WIDE_TRACE_SIMDGROUPS
             ? WIDE_TRACE_SIMDGROUPS
             : TILE_SIMDGROUPS;
}

// Values that the lanes of a simdgroup share, with one row for each of its rays.
template <int IN>
struct TraceSpace {
  tile_value features[TRACE_RAYS * IN];
  float basis[TRACE_RAYS * DIRECTION_FEATURES];
  float density[TRACE_RAYS];
  float color[TRACE_RAYS * 3];
};

// Places samples in the middle of their intervals.
struct TraceJitter {
  METAL_FUNC float operator[](uint) const { return 0.5f; }
};

// Returns the index of the ray that is traced as number `i`. If `width` is not 0, the rays are the
// pixels of an image with `width` columns. An image that can be divided into blocks of 8 x 4 pixels
// is traced block by block, because the rays of a block are more coherent than the rays of a row.
METAL_FUNC int trace_index(int i, int rays, int width) {
  const int columns = 8, rows = 4;  // of a block
  if (width == 0 || width % columns != 0 || rays % (rows * width) != 0) return i;
  const int block = i / (columns * rows), across = width / columns;
  const int row = block / across * rows + i % (columns * rows) / columns;
  return row * width + block % across * columns + i % columns;
}

struct TraceRay {
  MarchRay march;
  int index;  // -1: none
  int k;      // interval
  bool has_sample;
  float distance;  // of the sample
  float transmittance, depth;
  float median;  // distance at which the transmittance fell to 1/2, or 0
  float color[3];
};

template <typename Origins, typename Directions, typename Basis>
METAL_FUNC TraceRay trace_start(
    int index, Origins origins, Directions directions, MarchSettings settings, Basis basis) {
  TraceRay ray;
  ray.march = march_ray(index, origins, directions, TraceJitter{}, settings);
  ray.index = index;
  ray.k = 0;
  ray.has_sample = false;
  ray.distance = ray.depth = ray.median = 0.0f;
  ray.transmittance = 1.0f;
  for (int c = 0; c < 3; ++c) ray.color[c] = 0.0f;
  spherical_harmonics(
      ray.march.direction.x, ray.march.direction.y, ray.march.direction.z, basis);
  return ray;
}

template <typename RayColor, typename Opacity, typename Depth>
METAL_FUNC void trace_finish(
    thread TraceRay& ray, RayColor ray_color, Opacity opacity, Depth depth) {
  const float seen = 1.0f - ray.transmittance;
  const bool is_opaque = ray.transmittance < RENDER_STOP_TRANSMITTANCE;
  const float scale = is_opaque ? 1.0f / seen : 1.0f;
  for (int c = 0; c < 3; ++c) ray_color[3 * ray.index + c] = scale * ray.color[c];
  opacity[ray.index] = is_opaque ? 1.0f : seen;
  depth[ray.index] = scale * (ray.median > 0.0f ? ray.median * seen : ray.depth);
  ray.index = -1;
  ray.has_sample = false;
}

// Adds a sample's contribution to its ray, and continues with the next interval.
template <typename Color>
METAL_FUNC void trace_composite(
    thread TraceRay& ray, float density, Color color, MarchSettings settings) {
  const float number = ray.march.first + float(ray.k);
  const float width =
      march_distance(number + 1.0f, settings) - march_distance(number, settings);
  const float own = density * width;
  const float passing = ray.transmittance * exp(-own);
  const float weight = ray.transmittance - passing;
  for (int c = 0; c < 3; ++c) ray.color[c] = fma(weight, color[c], ray.color[c]);
  ray.depth = fma(weight, ray.distance, ray.depth);
  if (ray.transmittance > 0.5f && passing <= 0.5f) {
    // The optical depth grows linearly within the sample's interval.
    const float fraction = log(2.0f * ray.transmittance) / own;
    ray.median = fma(fraction - 0.5f, width, ray.distance);
  }
  ray.transmittance = passing;
  ray.has_sample = false;
  ++ray.k;
}

// Returns the features of a position in scene coordinates.
template <int LEVELS, int FEATURES, typename Table, typename Grids, typename Shapes,
          typename Features>
METAL_FUNC void trace_encode(
    float3 position, Table table, Grids grids, Shapes shapes, Features features) {
  const float place[3] = {position.x, position.y, position.z};
  for (int level = 0; level < LEVELS; ++level) {
    float sum[FEATURES];
    hash_interpolate<FEATURES>(place, 0, level, table, grids, shapes, sum);
    for (int i = 0; i < FEATURES; ++i) features[level * FEATURES + i] = tile_value(sum[i]);
  }
}

template <int IN, int WIDTH, int DENSITY_LAYERS, int DENSITY_BIAS, int COLOR_LAYERS,
          int FEATURES, typename Origins, typename Directions, typename Bits, typename Settings,
          typename Width, typename Table, typename Grids, typename Shapes,
          typename Stored, typename RayColor, typename Opacity, typename Depth, typename Space>
METAL_FUNC void trace(
    uint3 thread_index, int rays, Origins origins, Directions directions, Bits bits,
    Settings settings, Width width, Table table, Grids grids, Shapes shapes,
    Stored stored, RayColor ray_color, Opacity opacity, Depth depth, Space spaces) {
  const uint local = thread_index.x % (SIMD_WIDTH * trace_simdgroups(IN));
  const int lane = int(local % SIMD_WIDTH);
  auto space = spaces + local / SIMD_WIDTH;
  int next = int(thread_index.x / SIMD_WIDTH) * TRACE_QUEUE;
  const int last = min(next + TRACE_QUEUE, rays);
  const MarchSettings to = march_settings(settings);
  TraceRay own[TRACE_RAYS / SIMD_WIDTH];
  for (int o = 0; o < TRACE_RAYS / SIMD_WIDTH; ++o) {
    own[o].index = -1;
    own[o].has_sample = false;
    for (int i = 0; i < IN; ++i) space->features[(o * SIMD_WIDTH + lane) * IN + i] = tile_value(0);
    for (int i = 0; i < DIRECTION_FEATURES; ++i) {
      space->basis[(o * SIMD_WIDTH + lane) * DIRECTION_FEATURES + i] = 0.0f;
    }
  }

  for (;;) {
    // All rays that have ended are replaced at the same time, so that neighboring rays cross empty
    // space together.
    bool is_busy = false;
    for (;;) {
      int free = 0;
      for (int o = 0; o < TRACE_RAYS / SIMD_WIDTH; ++o) free += simd_sum(int(own[o].index < 0));
      const bool is_refilled = next < last && free >= TRACE_RAYS / 2;
      is_busy = false;
      for (int o = 0; o < TRACE_RAYS / SIMD_WIDTH; ++o) {
        thread TraceRay& ray = own[o];
        if (is_refilled) {
          const bool is_free = ray.index < 0;
          const int index = next + simd_prefix_exclusive_sum(int(is_free));
          next += simd_sum(int(is_free));
          if (is_free && index < last) {
            ray = trace_start(trace_index(index, rays, width[0]), origins, directions, to,
                              space->basis + (o * SIMD_WIDTH + lane) * DIRECTION_FEATURES);
          }
        }
        if (ray.index >= 0 && !ray.has_sample) {
          ray.distance = march_search(ray.march, ray.k, bits, to);
          ray.has_sample = ray.k < ray.march.intervals;
          if (!ray.has_sample) trace_finish(ray, ray_color, opacity, depth);
        }
        is_busy = is_busy || ray.has_sample;
      }
      if (!is_refilled) break;
    }
    if (!simd_any(is_busy)) {
      if (next >= last) return;
      continue;
    }

    for (int o = 0; o < TRACE_RAYS / SIMD_WIDTH; ++o) {
      if (own[o].has_sample) {
        trace_encode<IN / FEATURES, FEATURES>(
            own[o].march.origin + own[o].march.direction * own[o].distance, table, grids,
            shapes, space->features + (o * SIMD_WIDTH + lane) * IN);
      }
    }
    simd_publish();
    for (int first = 0; first < TRACE_RAYS; first += TILE_ROWS) {
      networks_tile<IN, WIDTH, DENSITY_LAYERS, DENSITY_BIAS, COLOR_LAYERS>(
          local, TileBlock{first, TILE_ROWS}, space->features,
          network_read(space->basis, DIRECTION_FEATURES), stored, space->density, space->color);
    }
    simd_publish();

    for (int o = 0; o < TRACE_RAYS / SIMD_WIDTH; ++o) {
      if (own[o].has_sample) {
        const int row = o * SIMD_WIDTH + lane;
        trace_composite(own[o], space->density[row], space->color + 3 * row, to);
        if (own[o].transmittance < RENDER_STOP_TRANSMITTANCE) {
          trace_finish(own[o], ray_color, opacity, depth);
        }
      }
    }
  }
}
