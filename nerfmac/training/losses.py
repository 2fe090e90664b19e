"""Losses: functions of a rendered batch of rays and its target colors.

`Method(loss=...)` replaces the configured color loss, and `Method(extra_losses=[...])` adds loss
terms. Four more losses are configurable. The occlusion loss reduces haze:

    occlusion = sum_i weight_i / (1 + t_i),   for a sample at the distance t_i

If the images do not determine which of two depths is correct, the occlusion loss favors the greater
depth. If a surface has no texture, density anywhere along a ray can have the correct color, but
density near a camera hides the scene in other views. FreeNeRF (Yang et al. 2023, section 4.3) calls
a similar penalty on density near cameras occlusion regularization. The occlusion loss decays
linearly to zero at the fraction `OCCLUSION_END` of the run, so that it does not bias the final
depths.

The depth loss applies to rays with a distance d that is known from the tracks of sparse points:

    depth = 1 - sum_i weight_i exp(-(t_i - d)^2 / (2 spread^2))

The depth loss is small if the ray's weights are concentrated within about one `spread` of d. The
depth loss decays linearly to zero at the end of the run. For the same purpose, DS-NeRF (Deng et al.
2022) minimizes the divergence between the weights and a normal distribution.

The ground loss applies to rays that intersect the ground plane at the distance g, and moves their
density to the plane:

    ground = sum_i weight_i min(|t_i / g - 1|, GROUND_REACH)

Density anywhere along a ray can have the correct color of a textureless floor, so the colors do not
determine the floor's depth. Far from the plane, the ground loss is constant, so it does not move
tall objects in front of the plane. For objects close to the plane, the color loss dominates.

The sensor loss applies to rays with a distance s that a depth sensor, such as the LiDAR of a phone,
has measured with the confidence c in [0, 1]:

    sensor = c (1 - sum_i weight_i max(1 - |t_i / s - 1| / SENSOR_REACH, 0))

The loss is the expected relative error of the depth, so the minimum over several measurements of a
surface is their median. The loss is robust: density that is farther from s than SENSOR_REACH has a
constant loss, so that objects that the sensor has missed are removed only if the images do not
show them.

The occlusion, depth, ground, and sensor losses are linear in the weights. These losses are
therefore implemented as penalties of samples (see `nerfmac.ops.penalty`), because
`composite_penalized` can sum weight times penalty while it composites colors.
"""

from collections.abc import Callable

import mlx.core as mx

from nerfmac.ops.huber import huber
from nerfmac.sampling.ray_batch import RayBatch

Loss = Callable[[RayBatch, mx.array], mx.array]
"""Function that takes a `RayBatch` and the target colors (rays, 3) over the same backgrounds. The
function returns one loss per ray, (rays,), or several losses per ray, (rays, n). Training minimizes
the mean loss over the rays for which `RayBatch.mask` is 1."""


def huber_loss(delta: float) -> Loss:
    """Return a loss that applies `nerfmac.ops.huber.huber` to the color of a ray."""
    return lambda rays, target: huber(rays.color, target, delta)
