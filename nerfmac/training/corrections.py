"""`Corrections`: what training learns of its views, beside the field.

A camera's pose [R | t] becomes [exp(w) R | t + v]: six numbers a view, in so(3) x R^3, along the
scene's axes; `training.conditioning` says of which numbers they are made. Views of one camera have
its lens in common (`training.shared_lenses`).

A picture's light is multiplied, in each colour, by the exponential of a number. Its colours c, as
they are encoded, become (1 + A) c + b, with nine numbers A and three b: the affine map of Rematas
et al. 2022 (Urban Radiance Fields, section 3.3), learned as it is and not by a latent code, in the
place of NeRF-W's appearance vectors, which a field's colour network would have to read. The means
of all these numbers over the views are taken away: so the field shows the mean of the pictures, and
so do views that training does not know.

A sample x of a ray with the origin o moves by dv + dw x (x - o) when its camera's pose does: so
gradients get from samples to poses. Moves are taken at the corrected pose, as those of Lie groups
are: to the first order in w that is the gradient in w too. A lens turns the ray's direction, and
its samples with it. The distance of a sample from its camera is a constant (Instant-NGP's
`compute_cam_gradient_train_nerf`; BARF, Lin et al. 2021).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Shapes
from nerfmac.config import RefineConfig
from nerfmac.fields.field import Parameters
from nerfmac.geometry.cameras import Cameras
from nerfmac.geometry.colour import linear_to_srgb, srgb_to_linear
from nerfmac.geometry.rays import Rays
from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import Composited
from nerfmac.training.conditioning import conditioning
from nerfmac.training.optimiser import OwnRate
from nerfmac.training.shared_lenses import NUMBERS, SharedLenses

POSES = "views.poses"
"""Parameters (views, 6), of which `conditioning` makes a rotation in radians and a shift."""
LENSES = "views.lenses"
"""Parameters (lenses, 3), of which `conditioning` makes a focal length, k1 and k2."""
EXPOSURES = "views.exposures"
"""Parameters (views, 3): logarithms of factors on the light of red, green and blue."""
COLOURS = "views.colours"
"""Parameters (views, 12): A row by row, then b."""

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

    @cached_property
    def lenses(self) -> SharedLenses:
        """The views' lenses. There must be views."""
        assert self.given is not None
        return SharedLenses(self.given)

    @property
    def shapes(self) -> Shapes:
        """The names and shapes of the parameters."""
        shapes: Shapes = {}
        if self.config.poses:
            shapes[POSES] = (self.views, 6)
        if self.config.lenses:
            shapes[LENSES] = (len(self.lenses) if self.given else 0, NUMBERS)
        if self.config.exposures:
            shapes[EXPOSURES] = (self.views, 3)
        if self.config.colours:
            shapes[COLOURS] = (self.views, 12)
        return shapes

    def init(self) -> Parameters:
        """No corrections yet."""
        return {name: mx.zeros(shape) for name, shape in self.shapes.items()}

    def rates(self, step: int, factor: float, progress: float) -> dict[str, OwnRate]:
        """Adam's rates for the parameters in `step`, counted from 0, at `progress` of the run.

        `factor` is that of the field's learning rate at that time to the one at the start.
        """
        falling, config = factor * self.config.final_rate**progress, self.config
        moves, warmup = config.moves_until(step), config.warmup_at(step)
        rates = {
            POSES: (warmup * config.pose_rate, moves),
            LENSES: (warmup * config.lens_rate, moves),
            EXPOSURES: (config.exposure_rate, None),
            COLOURS: (config.colour_rate, None),
        }
        return {
            name: OwnRate(falling * rate, config.l2, steps)
            for name, (rate, steps) in rates.items()
            if name in self.shapes
        }

    def of_cameras(self, learned: Parameters) -> Parameters:
        """The poses' and lenses' parameters among those `learned`."""
        return {name: each for name, each in learned.items() if name in (POSES, LENSES)}

    def of_field(self, learned: Parameters) -> Parameters:
        """The field's own parameters among those `learned`."""
        return {name: each for name, each in learned.items() if name not in self.shapes}

    def cameras(self, parameters: Parameters) -> Cameras:
        """The cameras, poses and lenses corrected, without a gradient. There must be views."""
        assert self.given is not None
        cameras = self.with_lenses(self.given, parameters)
        if not self.config.poses:
            return cameras
        poses = corrected_poses(self.given.poses, mx.stop_gradient(self.moves(parameters)))
        return replace(cameras, poses=poses)

    def with_lenses(self, cameras: Cameras, parameters: Parameters) -> Cameras:
        """Any `cameras`, those that have a training view's lens with it as it is corrected."""
        if not self.config.lenses or self.given is None:
            return cameras
        changes = self.lenses.changes(mx.stop_gradient(parameters[LENSES]))
        return self.lenses.corrected(cameras, changes)

    def moves(self, parameters: Parameters) -> mx.array:
        """(views, 6): each camera's rotation vector, in radians, and shift, in scene units."""
        # A sum, not matmul: a GPU may compute that in TF32, with ten bits of mantissa.
        return (self._conditioning * parameters[POSES][:, None, :]).sum(axis=2)

    def follow(
        self, parameters: Parameters, samples: Samples, rays: Rays, view: mx.array
    ) -> Followed:
        """The `samples` of `rays` as they are, but moving with the cameras of `view` (rays,)."""
        turn, shift = mx.zeros_like(rays.direction), None
        if self.config.lenses:
            changes = self.lenses.changes(parameters[LENSES])
            turn = self.lenses.turns(self.cameras(parameters), changes, rays, view)
        if self.config.poses:
            moves = self.moves(parameters)
            move = (moves - mx.stop_gradient(moves))[view]  # zero, with a gradient
            turn = turn + mx.linalg.cross(move[:, :3], rays.direction)
            shift = move[:, 3:]
        parts = turn if shift is None else mx.concatenate([turn, shift], axis=1)
        moved = parts[samples.ray]
        position = samples.position + samples.distance[:, None] * moved[:, :3]
        if shift is not None:
            position = position + moved[:, 3:]
        return Followed(samples._replace(position=position), rays.direction + turn)

    def exposed(self, seen: Composited, parameters: Parameters, view: mx.array) -> Composited:
        """What rays see, as bright and in such colours as the pictures of their `view` (rays,)."""
        if self.config.exposures:
            logarithms = parameters[EXPOSURES]
            factor = mx.exp(logarithms - logarithms.mean(axis=0))[view]
            opacity = mx.maximum(seen.opacity[:, None], _CLEAR)
            light = mx.minimum(factor * srgb_to_linear(seen.colour / opacity), 1.0)
            seen = seen._replace(colour=opacity * linear_to_srgb(light))
        if self.config.colours:
            numbers = parameters[COLOURS]
            own = (numbers - numbers.mean(axis=0))[view]
            mixed = (own[:, :9].reshape(-1, 3, 3) * seen.colour[:, None, :]).sum(axis=2)
            colour = seen.colour + mixed + seen.opacity[:, None] * own[:, 9:]
            seen = seen._replace(colour=colour)
        return seen


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
