// Metal needs no translation: it is the language the kernels are written in. What stands here is
// what the kernels add to it.

// Keeps a small array whose loops it heads in registers.
#define UNROLL _Pragma("unroll")

// Floats one thread works on at once where a kernel is vectorised (kernels/mlp.metal).
typedef float4 lanes;
#define LANES 4
template <typename Pointer>
METAL_FUNC lanes load_lanes(Pointer from) {
  return lanes{from[0], from[1], from[2], from[3]};
}
template <typename Pointer>
METAL_FUNC void store_lanes(Pointer to, lanes value) {
  for (int i = 0; i < LANES; ++i) to[i] = value[i];
}
