// Function arguments for the tile functions in tile.h. They fill, scale, and write rows of tiles,
// and compute the activations after the last layer.

// Returns the address of a row's values in an array.
template <typename Values>
struct NetworkRead {
  Values values;
  int columns;
  METAL_FUNC Values operator()(int row) const { return values + row * columns; }
};

template <typename Values>
METAL_FUNC NetworkRead<Values> network_read(Values values, int columns) {
  return NetworkRead<Values>{values, columns};
}

// Returns the address of the direction basis for a row's ray.
template <typename Basis, typename Ray>
struct NetworkBasis {
  Basis basis;
  Ray ray;
  METAL_FUNC Basis operator()(int row) const { return basis + DIRECTION_FEATURES * int(ray[row]); }
};

template <typename Basis, typename Ray>
METAL_FUNC NetworkBasis<Basis, Ray> network_basis(Basis basis, Ray ray) {
  return NetworkBasis<Basis, Ray>{basis, ray};
}

// Writes a row's values to an array.
template <typename Values>
struct NetworkWrite {
  Values values;
  int columns;
  METAL_FUNC float operator()(int row, int column, float value) const {
    values[row * columns + column] = value;
    return value;
  }
};

template <typename Values>
METAL_FUNC NetworkWrite<Values> network_write(Values values, int columns) {
  return NetworkWrite<Values>{values, columns};
}

// Writes a row's gradients to an array. A value that is too large for half precision becomes the
// largest half. If a value is not finite, the weight gradients are not finite either, and the step
// is skipped.
template <typename Values>
struct NetworkWriteGradient {
  Values values;
  int columns;
  METAL_FUNC float operator()(int row, int column, float value) const {
    const bool is_half = sizeof(values[0]) == 2;
    values[row * columns + column] = is_half ? clamp(value, -65504.0f, 65504.0f) : value;
    return value;
  }
};

template <typename Values>
METAL_FUNC NetworkWriteGradient<Values> network_write_gradient(Values values, int columns) {
  return NetworkWriteGradient<Values>{values, columns};
}

// Multiplies the values of a row by a value from an array.
template <typename Values>
struct NetworkScale {
  Values values;
  int columns;
  METAL_FUNC float operator()(int row, int column, float value) const {
    return float(values[row * columns + column]) * value;
  }
};

template <typename Values>
METAL_FUNC NetworkScale<Values> network_scale(Values values, int columns) {
  return NetworkScale<Values>{values, columns};
}

// The activations of density and color, and their derivatives, for a float or a vector of floats.
template <int DENSITY_BIAS>
struct NetworkExp {
  template <typename Sum>
  METAL_FUNC Sum operator()(Sum sum) const {
    return exp(clamp(sum - float(DENSITY_BIAS), -104.0f, DENSITY_LIMIT));  // e^-104 is zero
  }
};

template <int DENSITY_BIAS>
struct NetworkExpSlope {
  template <typename Sum>
  METAL_FUNC Sum operator()(Sum sum) const {
    return exp(clamp(sum - float(DENSITY_BIAS), -DENSITY_LIMIT, DENSITY_LIMIT));
  }
};

struct NetworkSigmoid {
  template <typename Sum>
  METAL_FUNC Sum operator()(Sum sum) const {
    return 1.0f / (1.0f + exp(-sum));
  }
};

struct NetworkSigmoidSlope {
  template <typename Sum>
  METAL_FUNC Sum operator()(Sum sum) const {
    const Sum value = 1.0f / (1.0f + exp(-sum));
    return value * (1.0f - value);
  }
};

// Returns whether any result of a row has a nonzero gradient.
template <typename DensityGradient, typename ColorGradient>
struct NetworkHasGradient {
  DensityGradient d_density;
  ColorGradient d_color;
  METAL_FUNC bool operator()(int row) const {
    return d_density[row] != 0.0f || d_color[3 * row] != 0.0f || d_color[3 * row + 1] != 0.0f ||
           d_color[3 * row + 2] != 0.0f;
  }
};

// Sets a row of `columns` to zero.
template <typename Values>
struct NetworkClear {
  Values values;
  int columns;
  METAL_FUNC void operator()(int row) const {
    for (int i = 0; i < columns; ++i) values[row * columns + i] = 0.0f;
  }
};
