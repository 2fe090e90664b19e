#include "threefry.h"

// Uniformly distributed random floats in [0, 1), with the same values as `mx.random.uniform`.

// Converts a random word to a float in [0, 1). The conversion to float rounds words close to 2^32
// up to 2^32, so the result is limited to the largest float below 1. The factor is 2^-32, so the
// product is exact.
METAL_FUNC float uniform_fraction(uint word) {
  return min(float(word) * 2.3283064365386963e-10f, 0.99999994f);
}

// Draws count[0] values. There is one thread per pair of values. The pairs are numbered as in MLX:
// the counter of thread i contains i and i + pairs, which are also the indices of its two values.
// If the count is odd, the last thread draws one value, and the second word of its counter is 0.
template <typename Key, typename Count, typename Values>
METAL_FUNC void uniform_draw(
    uint3 thread_index, int pairs, Key key, Count count, Values values) {
  const int i = int(thread_index.x);
  if (i >= pairs) return;
  const bool has_second = i + pairs < count[0];
  const uint2 words =
      threefry_words(uint2{key[0], key[1]}, uint2{uint(i), has_second ? uint(i + pairs) : 0u});
  values[i] = uniform_fraction(words.x);
  if (has_second) values[i + pairs] = uniform_fraction(words.y);
}
