// What tiles' rows are filled with, scaled by and written to, and the networks' last activations:
// functions of a row, a column or a value, for the tile functions of tile.h.

// Where an array holds a row's values.
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

// Where the basis of the direction of a row's ray stands.
template <typename Basis, typename Ray>
struct NetworkBasis {
  Basis basis;
  Ray ray;
  METAL_FUNC Basis operator()(int row) const { return basis + BASIS * int(ray[row]); }
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

// The same for a gradient: one that is too large for half precision becomes the largest half. What
// is not finite before shows in the weights' gradients, by which a step is skipped.
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

// Multiplies a row's values by what an array holds of it.
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

// The activations of density and color, and their derivatives: of one sum or of a vector of them.
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

// Whether any of a row's results has a gradient.
template <typename DensityGradient, typename ColorGradient>
struct NetworkHasGradient {
  DensityGradient d_density;
  ColorGradient d_color;
  METAL_FUNC bool operator()(int row) const {
    return d_density[row] != 0.0f || d_color[3 * row] != 0.0f || d_color[3 * row + 1] != 0.0f ||
           d_color[3 * row + 2] != 0.0f;
  }
};

// Makes zero of a row of `columns`.
template <typename Values>
struct NetworkClear {
  Values values;
  int columns;
  METAL_FUNC void operator()(int row) const {
    for (int i = 0; i < columns; ++i) values[row * columns + i] = 0.0f;
  }
};
