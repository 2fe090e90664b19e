// Update of the dynamic loss scale after a step (Micikevicius et al. 2018, section 3.2).
//
// total[0] is the sum of all gradients. If it is not finite, the step is skipped and the scale is
// halved. After LOSS_SCALE_GROWTH_INTERVAL consecutive steps that are not skipped, the scale is
// doubled. unscale[0] is the factor for the gradients of the step: the reciprocal of the scale, or
// 0 if the step is skipped. The kernel uses a single thread.

template <typename Total, typename Scale, typename GoodSteps, typename Skipped, typename InARow,
          typename NewScale, typename NewGoodSteps, typename NewSkipped, typename NewInARow,
          typename Unscale>
METAL_FUNC void loss_scale(
    uint3 thread_index, int count, Total total, Scale scale, GoodSteps good_steps,
    Skipped skipped, InARow skipped_in_a_row, NewScale new_scale, NewGoodSteps new_good_steps,
    NewSkipped new_skipped, NewInARow new_skipped_in_a_row, Unscale unscale) {
  if (int(thread_index.x) >= count) return;
  const float sum = total[0], factor = scale[0];
  // The exponent is tested, because fast math assumes that all numbers are finite.
  const bool is_good = (as_type<uint>(sum) & 0x7f800000u) != 0x7f800000u;
  const int in_a_row = is_good ? good_steps[0] + 1 : 0;
  const bool grows = in_a_row >= LOSS_SCALE_GROWTH_INTERVAL;
  const float grown = grows ? min(2.0f * factor, LOSS_SCALE_LARGEST) : factor;
  new_scale[0] = is_good ? grown : max(0.5f * factor, LOSS_SCALE_SMALLEST);
  new_good_steps[0] = grows ? 0 : in_a_row;
  new_skipped[0] = skipped[0] + (is_good ? 0 : 1);
  new_skipped_in_a_row[0] = is_good ? 0 : skipped_in_a_row[0] + 1;
  unscale[0] = is_good ? 1.0f / factor : 0.0f;
}
