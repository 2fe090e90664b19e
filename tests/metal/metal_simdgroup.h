// Simdgroup functions, for metal_stdlib.h. Lanes that have returned do not take part. If the value
// of a lane is undefined in Metal, for example a value from an inactive lane, all its bits are set;
// for floats this is NaN.
#pragma once

namespace metal {
namespace parts {

template <typename T>
struct lane_value {};
#define METAL_LANE_VALUE(T)      \
  template <>                    \
  struct lane_value<T> {         \
    typedef T type;              \
  };                             \
  template <int N>               \
  struct lane_value<vec<T, N>> { \
    typedef vec<T, N> type;      \
  };
METAL_LANE_VALUE(char)
METAL_LANE_VALUE(uchar)
METAL_LANE_VALUE(short)
METAL_LANE_VALUE(ushort)
METAL_LANE_VALUE(int)
METAL_LANE_VALUE(uint)
METAL_LANE_VALUE(half)
METAL_LANE_VALUE(float)
#undef METAL_LANE_VALUE

// T if simdgroups can exchange values of this type. Otherwise the function does not exist.
template <typename T>
using lane_type = typename lane_value<T>::type;

// The values of all lanes, on each lane.
template <typename T>
struct gathered {
  T values[32];
  uint active;

  METAL_RUNTIME gathered(const char* what, T mine) {
    active = runtime::exchange(what, &mine, values, sizeof(T));
  }
  METAL_RUNTIME bool takes_part(uint lane) const { return active >> lane & 1; }
  METAL_RUNTIME uint first() const { return uint(__builtin_ctz(active)); }
  METAL_RUNTIME T of(uint lane) const {
    T value;
    __builtin_memset(&value, 0xff, sizeof(T));
    return lane < 32 ? values[lane] : value;
  }
  // Sums the active lanes before `end`. Metal does not specify the order, so it is an option.
  METAL_RUNTIME T sum(uint end) const {
    T sums[32];
    for (uint lane = 0; lane < 32; ++lane) {
      sums[lane] = lane < end && takes_part(lane) ? values[lane] : T(0);
    }
    if (!runtime::adds_in_pairs()) {
      for (uint lane = 1; lane < 32; ++lane) sums[0] += sums[lane];
      return sums[0];
    }
    for (uint step = 1; step < 32; step *= 2) {
      for (uint lane = 0; lane < 32; lane += 2 * step) sums[lane] += sums[lane + step];
    }
    return sums[0];
  }
  // A bit for each lane with a nonzero value.
  METAL_RUNTIME ulong votes() const {
    ulong votes = 0;
    for (uint lane = 0; lane < 32; ++lane) {
      if (takes_part(lane) && values[lane]) votes |= ulong(1) << lane;
    }
    return votes;
  }
};

}  // namespace parts

// --- Reductions and shuffles -------------------------------------------------------------------

// Reductions over the active lanes.
#define METAL_REDUCTION(name, combined)                                   \
  template <typename T>                                                   \
  METAL_RUNTIME parts::lane_type<T> name(T mine) {                               \
    const parts::gathered<T> all(#name, mine);                                   \
    T sum = all.of(all.first());                                          \
    for (uint lane = all.first() + 1; lane < 32; ++lane) {                \
      if (all.takes_part(lane)) sum = combined;                           \
    }                                                                     \
    return sum;                                                           \
  }
METAL_REDUCTION(simd_min, min(sum, all.of(lane)))
METAL_REDUCTION(simd_max, max(sum, all.of(lane)))
#undef METAL_REDUCTION

#define METAL_SUM(name, end)                         \
  template <typename T>                              \
  METAL_RUNTIME parts::lane_type<T> name(T mine) {   \
    return parts::gathered<T>(#name, mine).sum(end); \
  }
METAL_SUM(simd_sum, 32)
METAL_SUM(simd_prefix_exclusive_sum, runtime::lane())
METAL_SUM(simd_prefix_inclusive_sum, runtime::lane() + 1)
#undef METAL_SUM

template <typename T>
METAL_RUNTIME parts::lane_type<T> simd_broadcast(T mine, ushort lane) {
  return parts::gathered<T>("simd_broadcast", mine).of(lane);
}
template <typename T>
METAL_RUNTIME parts::lane_type<T> simd_broadcast_first(T mine) {
  const parts::gathered<T> all("simd_broadcast_first", mine);
  return all.of(all.first());
}
template <typename T>
METAL_RUNTIME parts::lane_type<T> simd_shuffle(T mine, ushort lane) {
  return parts::gathered<T>("simd_shuffle", mine).of(lane);
}
template <typename T>
METAL_RUNTIME parts::lane_type<T> simd_shuffle_xor(T mine, ushort mask) {
  return parts::gathered<T>("simd_shuffle_xor", mine).of(runtime::lane() ^ mask);
}
// Lanes without a partner at that distance below or above keep their value.
template <typename T>
METAL_RUNTIME parts::lane_type<T> simd_shuffle_up(T mine, ushort delta) {
  const parts::gathered<T> all("simd_shuffle_up", mine);
  return runtime::lane() < delta ? mine : all.of(runtime::lane() - delta);
}
template <typename T>
METAL_RUNTIME parts::lane_type<T> simd_shuffle_down(T mine, ushort delta) {
  const parts::gathered<T> all("simd_shuffle_down", mine);
  return runtime::lane() + delta > 31 ? mine : all.of(runtime::lane() + delta);
}
// Lanes without a partner at that distance below get values from the top of `filling`.
template <typename T>
METAL_RUNTIME parts::lane_type<T> simd_shuffle_and_fill_up(T mine, T filling, ushort delta) {
  const parts::gathered<T> all("simd_shuffle_and_fill_up", mine);
  const parts::gathered<T> fill("simd_shuffle_and_fill_up filling", filling);
  const uint lane = runtime::lane();
  return lane < delta ? fill.of(32 + lane - delta) : all.of(lane - delta);
}

// --- Votes -------------------------------------------------------------------------------------

struct simd_vote {
  typedef ulong vote_t;

  METAL_FUNC explicit simd_vote(vote_t votes) : votes(votes) {}
  METAL_FUNC explicit operator vote_t() const { return votes; }
  METAL_FUNC bool all() const { return votes == 0xffffffff; }
  METAL_FUNC bool any() const { return votes != 0; }

 private:
  vote_t votes;
};

METAL_RUNTIME simd_vote simd_ballot(bool mine) {
  return simd_vote(parts::gathered<bool>("simd_ballot", mine).votes());
}
METAL_RUNTIME bool simd_any(bool mine) {
  return parts::gathered<bool>("simd_any", mine).votes() != 0;
}
METAL_RUNTIME bool simd_all(bool mine) {
  return parts::gathered<bool>("simd_all", !mine).votes() == 0;
}
METAL_RUNTIME simd_vote simd_active_threads_mask() {
  return simd_vote(parts::gathered<bool>("simd_active_threads_mask", true).votes());
}
METAL_RUNTIME bool simd_is_first() {
  return parts::gathered<bool>("simd_is_first", true).first() == runtime::lane();
}

}  // namespace metal
