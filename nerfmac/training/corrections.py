"""`Corrections`: what training learns of its views, beside the field.

A camera's pose [R | t] becomes [exp(w) R | t + v]: six numbers a view, in so(3) x R^3, along the
scene's axes; `training.conditioning` says of which numbers they are made. A picture's light is
multiplied, in each colour, by the exponential of a number; the mean of these numbers over the views
is taken away, so that the field has the mean exposure.

A sample x of a ray with the origin o moves by dv + dw x (x - o) when its camera's pose does: so
gradients get from samples to poses. Moves are taken at the corrected pose, as those of Lie groups
are: to the first order in w that is the gradient in w too. The distance of a sample from its camera
is a constant (Instant-NGP's `compute_cam_gradient_train_nerf`; BARF, Lin et al. 2021).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Shapes
from nerfmac.config import RefineConfig
from nerfmac.fields.field import Field, Parameters
from nerfmac.geometry.cameras import Cameras
from nerfmac.geometry.colour import linear_to_srgb, srgb_to_linear
from nerfmac.geometry.rays import Rays
from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import Composited
from nerfmac.training.conditioning import conditioning
from nerfmac.training.optimiser import OwnRate

POSES = "views.poses"
"""Parameters (views, 6), of which `conditioning` makes a rotation in radians and a shift."""
EXPOSURES = "views.exposures"
"""Parameters (views, 3): logarithms of factors on the light of red, green and blue."""

_CLEAR = 1e-4  # opacity below which a ray has no colour to expose


class Followed(NamedTuple):
    """Samples, and directions (rays, 3) of their rays, with gradients in their cameras' poses."""

    samples: Samples
    directions: mx.array


@dataclass(frozen=True)
class Corrections:
    """The corrections of views that the configuration asks for; maybe none."""

    config: RefineConfig
    given: Cameras | None
    """The views' cameras; None if there are no views."""

    @property
    def views(self) -> int:
        """How many views there are."""
        return len(self.given) if self.given else 0

    @cached_property
    def _conditioning(self) -> mx.array:
        assert self.given is not None
        return mx.array(conditioning(self.given))

    @property
    def shapes(self) -> Shapes:
        """The names and shapes of the parameters."""
        shapes: Shapes = {}
        if self.config.poses:
            shapes[POSES] = (self.views, 6)
        if self.config.exposures:
            shapes[EXPOSURES] = (self.views, 3)
        return shapes

    def init(self) -> Parameters:
        """No corrections yet."""
        return {name: mx.zeros(shape) for name, shape in self.shapes.items()}

    def rates(self, factor: float, progress: float) -> dict[str, OwnRate]:
        """Adam's rates for the parameters when `progress` of the run is done.

        `factor` is that of the field's learning rate at that time to the one at the start.
        """
        falling, config = factor * self.config.final_rate**progress, self.config
        rates = {POSES: config.pose_rate, EXPOSURES: config.exposure_rate}
        return {name: OwnRate(falling * rates[name], config.l2) for name in self.shapes}

    def cameras(self, parameters: Parameters) -> Cameras:
        """The cameras, their poses corrected; without a gradient. There must be views."""
        assert self.given is not None
        if not self.config.poses:
            return self.given
        poses = corrected_poses(self.given.poses, mx.stop_gradient(self._moves(parameters)))
        return replace(self.given, poses=poses)

    def _moves(self, parameters: Parameters) -> mx.array:
        """(views, 6): each camera's rotation vector, in radians, and shift, in scene units."""
        # A sum, not matmul: a GPU may compute that in TF32, with ten bits of mantissa.
        return (self._conditioning * parameters[POSES][:, None, :]).sum(axis=2)

    def of_field(self, learned: Parameters) -> Parameters:
        """The field's own parameters among those `learned`."""
        return {name: each for name, each in learned.items() if name not in self.shapes}

    def coarsened(self, field: Field, learned: Parameters, detail: mx.array) -> Parameters:
        """The `field`'s own parameters among those `learned`, as coarse as poses need them."""
        parameters = self.of_field(learned)
        if self.config.poses and self.config.coarse_steps:
            return field.coarsened(parameters, detail)
        return parameters

    def follow(
        self, parameters: Parameters, samples: Samples, rays: Rays, view: mx.array
    ) -> Followed:
        """The `samples` of `rays` as they are, but moving with the cameras of `view` (rays,)."""
        if not self.config.poses:
            return Followed(samples, rays.direction)
        moves = self._moves(parameters)
        move = (moves - mx.stop_gradient(moves))[view]  # zero, with a gradient
        turn = mx.linalg.cross(move[:, :3], rays.direction)
        moved = mx.concatenate([move[:, 3:], turn], axis=1)[samples.ray]
        position = samples.position + moved[:, :3] + samples.distance[:, None] * moved[:, 3:]
        return Followed(samples._replace(position=position), rays.direction + turn)

    def exposed(self, seen: Composited, parameters: Parameters, view: mx.array) -> Composited:
        """What rays see, as bright as the pictures of their `view` (rays,)."""
        if not self.config.exposures:
            return seen
        logarithms = parameters[EXPOSURES]
        factor = mx.exp(logarithms - logarithms.mean(axis=0))[view]
        opacity = mx.maximum(seen.opacity[:, None], _CLEAR)
        light = mx.minimum(factor * srgb_to_linear(seen.colour / opacity), 1.0)
        return seen._replace(colour=opacity * linear_to_srgb(light))


def corrected_poses(poses: mx.array, moves: mx.array) -> mx.array:
    """The `poses` (n, 3, 4), turned and shifted by `moves` (n, 6), as the module's docstring says.

    The rotation is Rodrigues' (1840).
    """
    turn = moves[:, None, :3]
    angle = mx.maximum(mx.linalg.norm(turn, axis=-1, keepdims=True), 1e-12)
    axes = poses[:, :, :3].swapaxes(1, 2)  # (n, axis, 3)
    once = mx.linalg.cross(mx.broadcast_to(turn, axes.shape), axes)
    twice = mx.linalg.cross(mx.broadcast_to(turn, axes.shape), once)
    half = mx.sin(0.5 * angle) / angle
    turned = axes + mx.sin(angle) / angle * once + 2.0 * half * half * twice
    place = poses[:, :, 3:] + moves[:, 3:, None]
    return mx.concatenate([turned.swapaxes(1, 2), place], axis=2)
