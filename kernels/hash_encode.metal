// Multiresolution hash encoding (Mueller et al. 2022, section 3), with the scale, offset, index,
// and hash function of the grid in tiny-cuda-nn.
//
// One thread handles one point at one level: thread_index = (point, level, 0). grids contains two
// floats per level, the scale and the offset that map a position to grid coordinates. shapes
// contains the number of levels, followed by three integers per level: the number of vertices along
// an axis, the index of the first table entry, and the number of entries. Only the first used[0]
// points are valid.

struct HashLevel {
  float scale, offset;
  uint first, entries;
  uint multiplier[3];  // factor of the vertex number along each axis in the index
  bool is_hashed;
};

template <typename Grids, typename Shapes>
METAL_FUNC HashLevel hash_level(uint level, Grids grids, Shapes shapes) {
  const uint vertices = shapes[3 * level + 1];
  HashLevel result;
  result.scale = grids[2 * level];
  result.offset = grids[2 * level + 1];
  result.first = shapes[3 * level + 2];
  result.entries = shapes[3 * level + 3];
  // 1625 cubed is the last cube below 2^32, so the product cannot wrap.
  result.is_hashed = vertices > 1625 || vertices * vertices * vertices > result.entries;
  result.multiplier[0] = 1;
  result.multiplier[1] = result.is_hashed ? HASH_PRIME_Y : vertices;
  result.multiplier[2] = result.is_hashed ? HASH_PRIME_Z : vertices * vertices;
  return result;
}

// The cell that contains a point. For the lower and the upper face along each axis, it stores the
// contribution to the vertex indices and the interpolation weight.
struct HashCell {
  uint index[3][2];
  float weight[3][2];
};

template <typename Positions>
METAL_FUNC HashCell hash_cell(Positions positions, uint point, HashLevel level) {
  HashCell cell;
  UNROLL
  for (int axis = 0; axis < 3; ++axis) {
    const float position = fma(level.scale, float(positions[3 * point + axis]), level.offset);
    const float lowest = floor(position);
    cell.index[axis][0] = uint(int(lowest)) * level.multiplier[axis];
    cell.index[axis][1] = cell.index[axis][0] + level.multiplier[axis];
    cell.weight[axis][1] = position - lowest;
    cell.weight[axis][0] = 1.0f - cell.weight[axis][1];
  }
  return cell;
}

// Computes the table entries of a cell's eight vertices. Bit `axis` of the vertex number selects
// the upper face. All eight indices are computed before the first entry is read, so that the reads
// have no branches and a CPU compiler can vectorize them.
METAL_FUNC void hash_entries(HashCell cell, HashLevel level, thread uint* entries) {
  UNROLL
  for (int which = 0; which < 8; ++which) {
    const uint x = cell.index[0][which & 1];
    const uint y = cell.index[1][(which >> 1) & 1];
    const uint z = cell.index[2][(which >> 2) & 1];
    if (level.is_hashed) {  // hashed levels have 2^k entries
      entries[which] = level.first + ((x ^ y ^ z) & (level.entries - 1));
    } else {  // the index exceeds the level at its upper border and outside [0, 1]
      const uint index = x + y + z;
      entries[which] = level.first + (index < level.entries ? index : index % level.entries);
    }
  }
}

// Returns the trilinear interpolation weight of the vertex `which`.
METAL_FUNC float hash_weight(HashCell cell, int which) {
  return cell.weight[0][which & 1] * cell.weight[1][(which >> 1) & 1] *
         cell.weight[2][(which >> 2) & 1];
}

// The features of a vertex, aligned so that one instruction reads or writes all of them.
template <int FEATURES, typename Scalar>
struct alignas(FEATURES * sizeof(Scalar) < ALIGNMENT ? FEATURES * sizeof(Scalar)
                                                    : ALIGNMENT) HashRow {
  Scalar at[FEATURES];
};

template <int FEATURES, typename Scalar>
METAL_FUNC HashRow<FEATURES, Scalar> hash_row(const device Scalar* rows, uint row) {
  return reinterpret_cast<const device HashRow<FEATURES, Scalar>*>(rows)[row];
}

template <int FEATURES, typename Scalar>
METAL_FUNC void hash_store(device Scalar* rows, uint row, thread const float* values) {
  device HashRow<FEATURES, Scalar>* to =
      reinterpret_cast<device HashRow<FEATURES, Scalar>*>(rows) + row;
  for (int i = 0; i < FEATURES; ++i) to->at[i] = Scalar(values[i]);
}

// Returns the features of one point at one level.
template <int FEATURES, typename Positions, typename Table, typename Grids, typename Shapes>
METAL_FUNC void hash_interpolate(Positions positions, uint point, uint level, Table table,
                                 Grids grids, Shapes shapes, thread float* features) {
  const HashLevel geometry = hash_level(level, grids, shapes);
  const HashCell cell = hash_cell(positions, point, geometry);
  uint entries[8];
  hash_entries(cell, geometry, entries);
  for (int i = 0; i < FEATURES; ++i) features[i] = 0.0f;
  UNROLL
  for (int which = 0; which < 8; ++which) {
    const float weight = hash_weight(cell, which);
    const auto row = hash_row<FEATURES>(table, entries[which]);
    UNROLL
    for (int i = 0; i < FEATURES; ++i) features[i] = fma(weight, float(row.at[i]), features[i]);
  }
}

// Forward kernel: each thread writes the features of one point at one level.
template <int FEATURES, typename Positions, typename Table, typename Grids,
          typename Shapes, typename Used, typename Encoded>
METAL_FUNC void hash_encode_forward(
    uint3 thread_index, int points, Positions positions, Table table, Grids grids, Shapes shapes,
    Used used, Encoded encoded) {
  const uint point = thread_index.x, levels = shapes[0];
  if (point >= uint(min(points, used[0]))) return;
  float features[FEATURES];
  hash_interpolate<FEATURES>(positions, point, thread_index.y, table, grids, shapes, features);
  hash_store<FEATURES>(encoded, point * levels + thread_index.y, features);
}

// A run consists of neighboring lanes of a simdgroup with points in the same cell. In coarse
// levels, consecutive samples of a ray often form runs. The table contributions of a run are summed
// first, and the sum is added once.
struct HashRun {
  bool is_first;  // whether this lane adds the sum of its run
  int ahead;      // number of lanes in the run after this one
  int reach;      // a power of two above `ahead` of every lane
};

// Finds the run of this lane. Every lane of the simdgroup must call this function. Lanes without a
// contribution are not part of a run. If the mean run length is below SHORTEST, contributions are
// not combined, because summing would take more time than it saves.
template <int SHORTEST>
METAL_FUNC HashRun hash_run(int lane, HashCell cell, bool takes_part) {
  bool is_tied = bool(simd_shuffle_up(int(takes_part), 1)) && takes_part && lane > 0;
  for (int axis = 0; axis < 3; ++axis) {
    const bool is_same = simd_shuffle_up(cell.index[axis][0], 1) == cell.index[axis][0];
    is_tied = is_tied && is_same;
  }
  HashRun run{takes_part, 0, 1};
  const int first = simd_sum(int(takes_part && !is_tied));
  if (first * SHORTEST > simd_sum(int(takes_part))) return run;
  run.is_first = takes_part && !is_tied;
  const int next_is_tied = simd_shuffle_down(int(is_tied), 1);
  if (lane < SIMD_WIDTH - 1) run.ahead = next_is_tied;
  for (; run.reach < SIMD_WIDTH && simd_any(run.ahead == run.reach); run.reach *= 2) {
    const int further = simd_shuffle_down(run.ahead, run.reach);
    if (run.ahead == run.reach) run.ahead += further;
  }
  return run;
}

// Returns the sum of the values from this lane to the last lane of its run.
METAL_FUNC float hash_run_sum(HashRun run, float value) {
  for (int distance = 1; distance < run.reach; distance *= 2) {
    const float further = simd_shuffle_down(value, distance);
    if (distance <= run.ahead) value += further;
  }
  return value;
}

// Accumulates the table gradient as floats. Several threads add to it in any order. `entry` is
// relative to the first table entry of the levels in a launch.
template <int FEATURES, typename Rows>
struct HashFloats {
  Rows rows;
  METAL_FUNC void add(uint, uint entry, thread const float* sum) const {
    atomic_add_row<FEATURES>(rows, entry, sum);
  }
};

// Accumulates the table gradient in fixed point, so that sums do not depend on the order of
// additions. Each level has its own unit, and per_unit contains the reciprocals of the units.
template <int FEATURES, typename Rows, typename PerUnit>
struct HashUnits {
  Rows rows;
  PerUnit per_unit;
  METAL_FUNC void add(uint level, uint entry, thread const float* sum) const {
    int units[FEATURES];
    for (int i = 0; i < FEATURES; ++i) {
      const float number = floor(sum[i] * per_unit[level] + 0.5f);
      units[i] = abs(number) < 2147483648.0f ? int(number) : 0;  // also for NaN
    }
    atomic_add_row<FEATURES>(rows, entry, units);
  }
};

// Adds gradients to `sums`. All lanes of a simdgroup must call this function. A launch computes a
// range of levels. `part` contains the index of the first level and the index of its first table
// entry.
template <int FEATURES, int SHORTEST, typename Sums, typename Positions, typename Gradient,
          typename Grids, typename Shapes, typename Used, typename Part>
METAL_FUNC void hash_add_gradient(
    Sums sums, uint3 thread_index, int points, Positions positions, Gradient gradient,
    Grids grids, Shapes shapes, Used used, Part part) {
  const uint level = thread_index.y + part[0], levels = shapes[0];
  const int last = min(points, used[0]) - 1;
  const bool is_point = int(thread_index.x) <= last;
  const uint point = uint(max(min(int(thread_index.x), last), 0));
  const auto row = hash_row<FEATURES>(gradient, point * levels + level);
  bool is_zero = true;
  for (int i = 0; i < FEATURES; ++i) is_zero = is_zero && float(row.at[i]) == 0.0f;
  // Samples behind a surface have no gradient. Skipping them saves memory traffic.
  const bool takes_part = is_point && !is_zero;
  if (!simd_any(takes_part)) return;
  const HashLevel geometry = hash_level(level, grids, shapes);
  const HashCell cell = hash_cell(positions, point, geometry);
  const HashRun run = hash_run<SHORTEST>(int(thread_index.x % SIMD_WIDTH), cell, takes_part);
  uint entries[8];
  hash_entries(cell, geometry, entries);
  UNROLL
  for (int which = 0; which < 8; ++which) {
    const float weight = hash_weight(cell, which);
    float sum[FEATURES];
    UNROLL
    for (int i = 0; i < FEATURES; ++i) {
      sum[i] = hash_run_sum(run, weight * float(row.at[i]));
    }
    if (run.is_first) sums.add(level, entries[which] - part[1], sum);
  }
}

// Gradient kernel with floats: accumulates into table_gradient, which is initialized to zero.
template <int FEATURES, int SHORTEST, typename Positions, typename Gradient, typename Grids,
          typename Shapes, typename Used, typename Part, typename TableGradient>
METAL_FUNC void hash_encode_table_gradient(
    uint3 thread_index, int points, Positions positions, Gradient gradient, Grids grids,
    Shapes shapes, Used used, Part part, TableGradient table_gradient) {
  hash_add_gradient<FEATURES, SHORTEST>(HashFloats<FEATURES, TableGradient>{table_gradient},
                                        thread_index, points, positions, gradient, grids, shapes,
                                        used, part);
}

// Gradient kernel in fixed point: accumulates integers in units of each level.
template <int FEATURES, int SHORTEST, typename Positions, typename Gradient, typename Grids,
          typename Shapes, typename Used, typename Part, typename PerUnit, typename Units>
METAL_FUNC void hash_encode_table_units(
    uint3 thread_index, int points, Positions positions, Gradient gradient, Grids grids,
    Shapes shapes, Used used, Part part, PerUnit per_unit, Units units) {
  hash_add_gradient<FEATURES, SHORTEST>(HashUnits<FEATURES, Units, PerUnit>{units, per_unit},
                                        thread_index, points, positions, gradient, grids, shapes,
                                        used, part);
}

// Converts the fixed-point gradient to floats, with one thread per table entry: thread_index =
// (entry, 0, 0).
template <int FEATURES, typename Units, typename Unit, typename Shapes, typename TableGradient>
METAL_FUNC void hash_encode_table_floats(
    uint3 thread_index, int entries, Units units, Unit unit, Shapes shapes,
    TableGradient table_gradient) {
  const uint entry = thread_index.x;
  if (entry >= uint(entries)) return;
  uint level = 0;
  for (uint next = shapes[0]; next - level > 1;) {  // the last level that begins before the entry
    const uint middle = (level + next) / 2;
    if (shapes[3 * middle + 2] <= entry) {
      level = middle;
    } else {
      next = middle;
    }
  }
  const auto row = hash_row<FEATURES>(units, entry);
  float values[FEATURES];
  for (int i = 0; i < FEATURES; ++i) values[i] = float(row.at[i]) * unit[level];
  hash_store<FEATURES>(table_gradient, entry, values);
}

// Computes the gradient of the positions, summed over the levels, with one thread per point:
// thread_index = (point, 0, 0).
template <int FEATURES, typename Positions, typename Table, typename Gradient, typename Grids,
          typename Shapes, typename Used, typename PositionGradient>
METAL_FUNC void hash_encode_position_gradient(
    uint3 thread_index, int points, Positions positions, Table table, Gradient gradient,
    Grids grids, Shapes shapes, Used used, PositionGradient position_gradient) {
  const uint point = thread_index.x, levels = shapes[0];
  if (point >= uint(points)) return;
  float sum[3] = {0.0f, 0.0f, 0.0f};
  for (uint level = 0; level < levels && point < uint(used[0]); ++level) {
    const HashLevel geometry = hash_level(level, grids, shapes);
    const HashCell cell = hash_cell(positions, point, geometry);
    const auto incoming = hash_row<FEATURES>(gradient, point * levels + level);
    uint entries[8];
    hash_entries(cell, geometry, entries);
    UNROLL
    for (int which = 0; which < 8; ++which) {
      const auto row = hash_row<FEATURES>(table, entries[which]);
      float along = 0.0f;  // dot product of this vertex's features with the incoming gradient
      UNROLL
      for (int i = 0; i < FEATURES; ++i) {
        along = fma(float(row.at[i]), float(incoming.at[i]), along);
      }
      UNROLL
      for (int axis = 0; axis < 3; ++axis) {
        // The derivative of the weight is the product of the other two axes' factors. Its sign
        // depends on whether the vertex is on the lower or the upper face along this axis.
        float slope = (which >> axis) & 1 ? geometry.scale : -geometry.scale;
        UNROLL
        for (int other = 0; other < 3; ++other) {
          if (other == axis) continue;
          slope *= cell.weight[other][(which >> other) & 1];
        }
        sum[axis] = fma(slope, along, sum[axis]);
      }
    }
  }
  for (int axis = 0; axis < 3; ++axis) position_gradient[3 * point + axis] = sum[axis];
}
