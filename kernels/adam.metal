// One step of Adam (Kingma and Ba 2015, algorithm 1) and of the average of the parameters, in one
// pass over the arrays. One thread an element.
//
// numbers = [beta1, beta2, size, epsilon, fresh, l2, unscale]: the moments' decay, the step's size
// and epsilon with the bias corrections in them, the newest parameters' weight in the average, the
// weight of the squared parameters in the loss, and what the gradient is multiplied by.

template <typename Parameters, typename Average, typename First, typename Second, typename Gradient,
          typename Numbers, typename NewParameters, typename NewAverage, typename NewFirst,
          typename NewSecond>
METAL_FUNC void adam(
    uint3 thread_index, int count, Parameters parameters, Average average, First first,
    Second second, Gradient gradient, Numbers numbers, NewParameters new_parameters,
    NewAverage new_average, NewFirst new_first, NewSecond new_second) {
  const uint i = thread_index.x;
  if (i >= uint(count)) return;
  const float beta1 = numbers[0], beta2 = numbers[1];
  const float slope = numbers[6] * gradient[i] + numbers[5] * parameters[i];
  const float m = beta1 * first[i] + (1.0f - beta1) * slope;
  const float v = beta2 * second[i] + (1.0f - beta2) * slope * slope;
  const float moved = parameters[i] - numbers[2] * m / (sqrt(v) + numbers[3]);
  new_parameters[i] = moved;
  new_average[i] = average[i] + numbers[4] * (moved - average[i]);
  new_first[i] = m;
  new_second[i] = v;
}
