// Uniformly distributed random floats in [0, 1), with the same values as `mx.random.uniform`.
//
// The random words are those of Threefry-2x32 with 20 rounds (Salmon et al. 2011), a function that
// maps a key of two words and a counter of two words to two random words.

// Applies four rounds with the given rotation distances, and then adds a part of the key.
METAL_FUNC uint2 uniform_rounds(
    uint2 words, uint first, uint second, uint third, uint fourth, uint2 part) {
  const uint distances[4] = {first, second, third, fourth};
  uint2 mixed = words;
  UNROLL
  for (int i = 0; i < 4; ++i) {
    mixed.x += mixed.y;
    mixed.y = (mixed.y << distances[i] | mixed.y >> (32 - distances[i])) ^ mixed.x;
  }
  return uint2{mixed.x + part.x, mixed.y + part.y};
}

// Computes Threefry-2x32.
METAL_FUNC uint2 uniform_words(uint2 key, uint2 counter) {
  const uint parity = key.x ^ key.y ^ 0x1bd11bdau;
  uint2 words = uint2{counter.x + key.x, counter.y + key.y};
  words = uniform_rounds(words, 13, 15, 26, 6, uint2{key.y, parity + 1});
  words = uniform_rounds(words, 17, 29, 16, 24, uint2{parity, key.x + 2});
  words = uniform_rounds(words, 13, 15, 26, 6, uint2{key.x, key.y + 3});
  words = uniform_rounds(words, 17, 29, 16, 24, uint2{key.y, parity + 4});
  return uniform_rounds(words, 13, 15, 26, 6, uint2{parity, key.x + 5});
}

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
      uniform_words(uint2{key[0], key[1]}, uint2{uint(i), has_second ? uint(i + pairs) : 0u});
  values[i] = uniform_fraction(words.x);
  if (has_second) values[i + pairs] = uniform_fraction(words.y);
}
