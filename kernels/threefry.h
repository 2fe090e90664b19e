// Random words: Threefry-2x32 with 20 rounds (Salmon et al. 2011), a function that maps a key of two
// words and a counter of two words to two random words. MLX uses the same function.

// Applies four rounds with the given rotation distances, and then adds a part of the key.
METAL_FUNC uint2 threefry_rounds(
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
METAL_FUNC uint2 threefry_words(uint2 key, uint2 counter) {
  const uint parity = key.x ^ key.y ^ 0x1bd11bdau;
  uint2 words = uint2{counter.x + key.x, counter.y + key.y};
  words = threefry_rounds(words, 13, 15, 26, 6, uint2{key.y, parity + 1});
  words = threefry_rounds(words, 17, 29, 16, 24, uint2{parity, key.x + 2});
  words = threefry_rounds(words, 13, 15, 26, 6, uint2{key.x, key.y + 3});
  words = threefry_rounds(words, 17, 29, 16, 24, uint2{key.y, parity + 4});
  return threefry_rounds(words, 13, 15, 26, 6, uint2{parity, key.x + 5});
}
