"""Priors: distances that are known along training rays, for the losses that move density to them.

Each prior is an argument of `nerfmac.ops.penalty.penalties`, which defines the shape of its loss:

- `tracks` (k, 3): distances, confidences, and standard deviations of the first k rays, which are
  drawn through sparse points (depth loss).
- `ground` (rays,): distances to the ground plane of the sparse points (ground loss).
- `sensor` (rays, 2): distances and confidences that a depth sensor has measured (sensor loss).

To add a loss of known distances, add its weight to `TrainConfig` and `resolve`, its values to
`Priors.along`, and its shape to the operation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import mlx.core as mx

from nerfmac.config import Config, TrainConfig, known
from nerfmac.geometry import Bounds, Cameras, Rays, Samples, Views
from nerfmac.ops.penalty import Penalties, PenaltyWeights, penalties
from nerfmac.ops.sensor_depth import sensor_depth
from nerfmac.training.track_rays import TrackRays

DEPTH_RAYS = 1 / 16  # Fraction of the rays that are drawn through sparse points for the depth loss.

Known = Mapping[str, mx.array]  # Known distances of the rays of a step, keyed by prior.


def penalty_weights(config: TrainConfig) -> PenaltyWeights:
    """Return the weights of the losses that are penalties of samples."""
    names = PenaltyWeights._fields
    return PenaltyWeights(*(known(f"train.{name}", getattr(config, name)) for name in names))


@dataclass(frozen=True, eq=False)
class Priors:
    """Losses of a training that are penalties of samples, and the distances that they require."""

    weights: PenaltyWeights
    views: Views
    track_rays: TrackRays | None

    @classmethod
    def of(cls, config: Config, bounds: Bounds, views: Views) -> Priors:
        """Create the priors of a training. Their distances come from `views`."""
        weights = penalty_weights(config.train)
        return cls(weights, views, TrackRays.of(views, config, bounds) if weights.depth else None)

    def draw(self, index: mx.array, fraction: mx.array) -> tuple[mx.array, Known]:
        """Replace the first of the random pixels `index` (rays,) by observations of sparse points,
        if the depth loss is enabled. `fraction` (rays,) contains random numbers in [0, 1)."""
        if self.track_rays is None:
            return index, {}
        count = max(int(DEPTH_RAYS * index.shape[0]), 1)
        index, targets = self.track_rays.draw(index, fraction, count)
        return index, {"tracks": targets}

    def along(self, cameras: Cameras, rays: Rays, index: mx.array) -> Known:
        """Return the other known distances of the rays through the pixels `index` (rays,)."""
        found: dict[str, mx.array] = {}
        if self.weights.ground and self.views.ground is not None:
            found["ground"] = self.views.ground.distance(rays)
        if self.weights.sensor and self.views.depth is not None:
            found["sensor"] = sensor_depth(self.views.depth, cameras, index, rays.view)
        return found

    def penalties(self, samples: Samples, train_frac: mx.array, given: Known) -> Penalties | None:
        """Return the penalties of samples, or None if all weights are 0."""
        if not any(self.weights):
            return None
        return penalties(samples, train_frac, self.weights, **given)
