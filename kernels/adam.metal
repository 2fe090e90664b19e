// One step of Adam (Kingma and Ba 2015, algorithm 1) in one pass over the arrays. One thread an
// element. An element without a gradient stays as it is, with its moments.
//
// step = [beta1, beta2, size, epsilon, l2, unscale]: the moments' decay, the step's size and
// epsilon with the bias corrections in them, the weight of the squared parameters in the loss, and
// what the gradient is multiplied by.

template <typename Parameters, typename First, typename Second, typename Gradient, typename Step,
          typename NewParameters, typename NewFirst, typename NewSecond>
METAL_FUNC void adam(
    uint3 thread_index, int count, Parameters parameters, First first, Second second,
    Gradient gradient, Step step, NewParameters new_parameters, NewFirst new_first,
    NewSecond new_second) {
  // Read before anything depends on the thread: a CPU's compiler then makes vectors of the threads.
  const float beta1 = step[0], beta2 = step[1], size = step[2], epsilon = step[3];
  const float l2 = step[4], unscale = step[5];
  const int i = int(thread_index.x);
  if (i >= count) return;
  const float slope = unscale * gradient[i] + l2 * parameters[i];
  const float m = beta1 * first[i] + (1.0f - beta1) * slope;
  const float v = beta2 * second[i] + (1.0f - beta2) * slope * slope;
  const float moved = parameters[i] - size * m / (sqrt(v) + epsilon);
  new_parameters[i] = slope != 0.0f ? moved : parameters[i];
  new_first[i] = slope != 0.0f ? m : first[i];
  new_second[i] = slope != 0.0f ? v : second[i];
}
