"""Penalties of samples, for the occlusion, depth, ground, and sensor losses (see
`nerfmac.training.losses`).

These losses are linear in the weights of the samples, so the sum of the losses of a ray is

    sum_i weight_i sample_i + ray

The penalty `sample_i` of a sample and the value `ray` of a ray do not depend on the field.
`composite_penalized` sums weight times penalty while it composites colors.
"""

from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Kernel, Signature
from nerfmac.common.constants import FAR_DISTANCE, GROUND_REACH, OCCLUSION_END, SENSOR_REACH
from nerfmac.geometry import Samples
from nerfmac.ops.operation import operation

_TAKES = Signature(
    distances=(mx.float32, "slots"), ray_of=(mx.int32, "slots"), progress=(mx.float32, 1)
)
_TRACKS = Signature(tracks=(mx.float32, "tracks", 3))
_GROUND = Signature(ground=(mx.float32, "rays"))
_SENSOR = Signature(sensor=(mx.float32, "rays", 2))
_GIVES = Signature(sample_penalty=(mx.float32, "slots"), ray_penalty=(mx.float32, "rays"))
_PENALTIES = Kernel(
    "penalty",
    "penalties",
    Signature(
        **_TAKES,
        tracks=(mx.float32, "tracks", 3),
        ground=(mx.float32, "planes"),
        sensor=(mx.float32, "measured", 2),
        settings=(mx.float32, 4),
        counts=(mx.int32, 2),
    ),
    _GIVES,
)


class PenaltyWeights(NamedTuple):
    """Weights of the losses. A loss with the weight 0 is not computed."""

    occlusion: float = 0.0  # at the beginning of the run
    depth: float = 0.0  # at the beginning of the run
    ground: float = 0.0
    sensor: float = 0.0


class Penalties(NamedTuple):
    """Result of `penalties`."""

    sample: mx.array  # (slots,) float32, penalty of each sample
    ray: mx.array  # (rays,) float32, part of the losses that does not depend on the field


def penalties(
    samples: Samples,
    progress: mx.array,
    weights: PenaltyWeights,
    tracks: mx.array | None = None,
    ground: mx.array | None = None,
    sensor: mx.array | None = None,
) -> Penalties:
    """Compute the penalty of each sample, and the part of the loss that is constant for each ray.

    The result is not differentiable.

    Args:
        samples: Packed samples. Unused slots receive arbitrary finite penalties.
        progress: Finished fraction of the run, a float32 array with one element.
        weights: Weight of each loss.
        tracks: (k, 3) float32. Each row contains the known distance, the confidence, and the
            standard deviation of the distance of one of the first k rays. If None, the depth loss
            is 0.
        ground: (rays,) float32, distance to the ground plane, or `FAR_DISTANCE` if the ray does not
            intersect the plane. If None, the ground loss is 0.
        sensor: (rays, 2) float32. Each row contains the distance that a sensor has measured, which
            is positive, and its confidence in [0, 1]. If None, the sensor loss is 0.

    Returns:
        `Penalties`. Confidences are multiplied by rays / k, so that the mean depth loss over all
        rays equals the mean over the rays with a track.

    Raises:
        InputError: If a shape or type is wrong.

    Examples:
        >>> from nerfmac.ops.penalty import PenaltyWeights, penalties
        >>> samples = nerfmac.Samples(
        ...     position=mx.zeros((2, 3)),
        ...     distance=mx.array([1.0, 3.0]),
        ...     width=mx.ones(2),
        ...     ray=mx.array([0, 0]),
        ...     ray_start=mx.array([0, 2]),
        ...     wanted=mx.array([2]),
        ... )
        >>> penalties(samples, mx.array(0.0), PenaltyWeights(occlusion=0.1)).sample
        array([0.05, 0.025], dtype=float32)
    """
    arrays = mx.stop_gradient(samples.distance), samples.ray, progress.reshape(-1)
    rays = samples.wanted.shape[0]
    _TAKES.check(*arrays)
    given = {"depth": tracks, "ground": ground, "sensor": sensor}
    for array, signature in zip(given.values(), (_TRACKS, _GROUND, _SENSOR), strict=True):
        if array is not None:
            signature.check(array, rays=rays)
    weights = weights._replace(**{name: 0.0 for name, array in given.items() if array is None})
    # The kernel does not read the array of a loss with the weight 0. `mx.array` needs no launch,
    # unlike `mx.zeros`.
    tracks = tracks if weights.depth and tracks is not None else mx.array([[0.0] * 3])
    ground = ground if weights.ground and ground is not None else mx.array([0.0])
    sensor = sensor if weights.sensor and sensor is not None else mx.array([[0.0] * 2])
    return Penalties(*_penalties(*arrays, tracks, ground, sensor, rays=rays, weights=weights))


def _penalties_reference(
    distance: mx.array,
    ray: mx.array,
    progress: mx.array,
    *arrays: mx.array,
    rays: int,
    weights: PenaltyWeights,
) -> tuple[mx.array, mx.array]:
    tracks, ground, sensor = arrays
    sample, of_rays = mx.zeros(distance.shape), mx.zeros(rays)
    if weights.occlusion:
        sample = weights.occlusion * _fading(progress, OCCLUSION_END) / (1.0 + distance)
    if weights.depth:
        count = tracks.shape[0]
        known, confidence, spread = tracks.T
        importance = weights.depth * rays / count * _fading(progress, 1.0)
        importance = importance * confidence
        # MLX inserts scalar constants into the source code of fused kernels. If the number of
        # tracks were a constant, MLX would compile a separate kernel for each number of rays.
        last = mx.arange(count)[-1:]
        track = mx.minimum(ray, last)
        miss = (distance - known[track]) / spread[track]
        near = importance[track] * mx.exp(-0.5 * mx.square(miss))
        sample = sample - mx.where(ray <= last, near, 0.0)
        of_rays = mx.concatenate([importance, mx.zeros(rays - count)])
    if weights.ground:
        plane = ground[ray]
        away = mx.minimum(mx.abs(distance / plane - 1.0), GROUND_REACH)
        sample = sample + weights.ground * mx.where(plane < FAR_DISTANCE, away, 0.0)
    if weights.sensor:
        measured, confidence = sensor.T
        miss = mx.abs(distance / measured[ray] - 1.0) / SENSOR_REACH
        near = confidence[ray] * mx.maximum(1.0 - miss, 0.0)
        sample = sample - weights.sensor * near
        of_rays = of_rays + weights.sensor * confidence
    return sample, of_rays


def _fading(progress: mx.array, end: float) -> mx.array:
    """Return a factor, float32 (1,), that decays linearly from 1 to 0 at the fraction `end` of the
    run."""
    return mx.maximum(1.0 - progress / end, 0.0)


@operation("penalty", _penalties_reference)
def _penalties(
    distance: mx.array, *arrays: mx.array, rays: int, weights: PenaltyWeights
) -> list[mx.array]:
    _, _, tracks, _, _ = arrays
    count, slots = tracks.shape[0] if weights.depth else 0, distance.shape[0]
    depth = weights.depth * rays / max(count, 1)
    settings = mx.array([weights.occlusion, depth, weights.ground, weights.sensor])
    return _PENALTIES(
        *(distance, *arrays, settings, mx.array([rays, count])),
        grid=(max(slots, rays), 1, 1),
        rays=rays,
    )
