"""`CameraRefinement` optimizes poses, lenses, exposures, and colors of the training views, and the
scale and the shift of measured depths.

A pose [R | t] becomes [exp(w) R | t + v]. The rotation vector w and the shift v are in scene axes
(so(3) x R^3). w and v are a linear function of six parameters per view
(`nerfmac.refine.lenses.pose_conditioning`). Views from one camera share a lens
(`nerfmac.refine.lenses.SharedLenses`).

An exposure multiplies the linear light of red, green, and blue by exp(parameter). A color map
changes the sRGB color c to (1 + A) c + b, where the 3 x 3 matrix A and the vector b are parameters
of each view. This affine map is from Urban Radiance Fields (Rematas et al. 2022, section 3.3), but
its parameters are optimized directly instead of being predicted from a latent code. The mean over
the views is subtracted from exposures and color maps. The field therefore represents the mean
exposure and the mean colors of the images. Views without refined parameters, such as test views,
are rendered with this exposure and these colors.

Gradients with respect to poses and lenses are computed from the gradients of sample positions and
ray directions. A sample x on a ray with origin o moves by dv + dw x (x - o). A lens changes the ray
direction. The distance between a sample and its camera is treated as constant
(`compute_cam_gradient_train_nerf` of Instant-NGP; BARF, Lin et al. 2021). The derivative with
respect to w is computed at the refined pose, to first order.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import mlx.core as mx
import numpy as np

from nerfmac.backend import Shapes
from nerfmac.common import SENSOR_REACH, Float64Array
from nerfmac.config import ParameterGroup, RefineConfig
from nerfmac.fields.field import Parameters
from nerfmac.geometry import Cameras, Rays, Samples, Views
from nerfmac.ops.composite import Composited
from nerfmac.ops.expose import expose
from nerfmac.refine.lenses import LENS_PARAMETERS, SharedLenses, pose_conditioning

CAMERA_INTERVAL = 8
"""Number of steps between two updates of poses and lenses."""

CAMERA_WARMUP_STEPS = 250
"""Number of steps over which the learning rates of poses and lenses rise from 0. Before the field
is trained, camera gradients are random. Adam normalizes gradients, so without a warm-up, the first
updates would nevertheless have full length."""

COLOR_RATE = 1e-3
"""Initial learning rate of the affine maps of colors."""

POSES = "views.poses"
"""Pose parameters (views, 6). `pose_conditioning` maps them to a rotation in radians and a shift in
scene units."""
LENSES = "views.lenses"
"""Lens parameters (lenses, 3). `lens_conditioning` maps them to the log focal factor, k1, and
k2."""
EXPOSURES = "views.exposures"
"""Exposure parameters (views, 3): log factors of the linear light of red, green, and blue."""
COLORS = "views.colors"
"""Color parameters (views, 12): the matrix A in row-major order, then the vector b."""
DEPTH_SCALE = "views.depth_scale"
"""Parameters (2,) of measured depths: the log of the scale, and the shift in scene units."""
OPAQUE = 0.5  # Minimum opacity of a ray whose depth is compared with the measured depth.


@dataclass(frozen=True)
class CameraRefinement:
    """Refinement of poses, lenses, exposures, and colors, as far as the configuration enables
    it."""

    config: RefineConfig
    initial: Cameras | None
    """Cameras of the training views before refinement, or None without views."""

    @property
    def _views(self) -> int:
        return len(self.initial) if self.initial else 0

    @cached_property
    def _conditioning(self) -> mx.array:
        assert self.initial is not None
        return mx.array(pose_conditioning(self.initial))

    @cached_property
    def lenses(self) -> SharedLenses:
        """Lenses of the training views. Requires training views."""
        assert self.initial is not None
        return SharedLenses(self.initial)

    @property
    def shapes(self) -> Shapes:
        """Shapes of the float32 parameters, keyed by name."""
        shapes: Shapes = {}
        if self.config.poses:
            shapes[POSES] = (self._views, 6)
        if self.config.lenses:
            shapes[LENSES] = (len(self.lenses) if self.initial else 0, LENS_PARAMETERS)
        if self.config.exposures:
            shapes[EXPOSURES] = (self._views, 3)
        if self.config.colors:
            shapes[COLORS] = (self._views, 12)
        if self.config.depth_scale:
            shapes[DEPTH_SCALE] = (2,)
        return shapes

    def init(self) -> Parameters:
        """Return initial parameters, which are zero and therefore do not change any camera or
        color."""
        return {name: mx.zeros(shape) for name, shape in self.shapes.items()}

    def rates(self, step: int, factor: float, progress: float) -> dict[str, ParameterGroup]:
        """Return the Adam settings of each parameter at `step`, counted from 0.

        `factor` is the learning rate of the field in this step divided by `OptimizerConfig.rate`,
        and `progress` is the fraction of the run that is complete.
        """
        config = self.config
        decay = factor * config.final_rate**progress
        updates, warmup = step // CAMERA_INTERVAL + 1, min(step / CAMERA_WARMUP_STEPS, 1.0)
        rates = {
            POSES: (warmup * config.pose_rate, updates),
            LENSES: (warmup * config.lens_rate, updates),
            EXPOSURES: (config.exposure_rate, None),
            COLORS: (COLOR_RATE, None),
            # Before the field has surfaces, haze in front of them would change the scale.
            DEPTH_SCALE: (config.depth_rate * float(warmup >= 1.0), None),
        }
        return {
            name: ParameterGroup(decay * rate, 0.0, updates)
            for name, (rate, updates) in rates.items()
            if name in self.shapes
        }

    def trained(self, parameters: Parameters, *, learns_cameras: bool) -> Parameters:
        """Return the subset of `parameters` that a step trains. Poses and lenses are included only
        if `learns_cameras` is True."""
        frozen = () if learns_cameras else (POSES, LENSES)
        return {name: values for name, values in parameters.items() if name not in frozen}

    def cameras(self, parameters: Parameters) -> Cameras:
        """Return the training cameras with refined poses and lenses, without gradients. This method
        requires training views."""
        assert self.initial is not None
        cameras = self.with_lenses(self.initial, parameters)
        if not self.config.poses:
            return cameras
        deltas = mx.stop_gradient(self.pose_deltas(parameters))
        return replace(cameras, poses=moved_poses(self.initial.poses, deltas))

    def with_lenses(self, cameras: Cameras, parameters: Parameters) -> Cameras:
        """Return `cameras` with refined lenses. Cameras with a lens that no training view uses do
        not change."""
        if not self.config.lenses or self.initial is None:
            return cameras
        changes = self.lenses.changes(mx.stop_gradient(parameters[LENSES]))
        return self.lenses.refined(cameras, changes)

    def pose_deltas(self, parameters: Parameters) -> mx.array:
        """Return the pose changes (views, 6): a rotation vector in radians and a shift in scene
        units."""
        # The product is computed as a sum, because a GPU may compute a matmul in TF32 with only ten
        # mantissa bits.
        return (self._conditioning * parameters[POSES][:, None, :]).sum(axis=2)

    def warp_samples(
        self, parameters: Parameters, samples: Samples, rays: Rays, view: mx.array
    ) -> tuple[Samples, Rays]:
        """Return `samples` and `rays` with unchanged values. The positions of the samples and the
        directions of the rays have gradients with respect to the camera poses and lenses. `view`,
        int32 (rays,), contains the index of each ray's training view."""
        turn, shift = mx.zeros_like(rays.direction), None
        if self.config.lenses:
            changes = self.lenses.changes(parameters[LENSES])
            turn = self.lenses.direction_jvp(self.cameras(parameters), changes, rays, view)
        if self.config.poses:
            deltas = self.pose_deltas(parameters)
            delta = (deltas - mx.stop_gradient(deltas))[view]  # zeros that have a gradient
            turn = turn + mx.linalg.cross(delta[:, :3], rays.direction)
            shift = delta[:, 3:]
        # Rotation and shift share one gather, because each gather is a separate launch.
        motion = turn if shift is None else mx.concatenate([turn, shift], axis=1)
        motion = motion[samples.ray]
        position = samples.position + samples.distance[:, None] * motion[:, :3]
        if shift is not None:
            position = position + motion[:, 3:]
        moved = rays._replace(direction=rays.direction + turn)
        return samples._replace(position=position), moved

    def with_depth(self, views: Views, parameters: Parameters) -> Views:
        """Return `views` with refined measured depths."""
        if views.depth is None or not self.config.depth_scale:
            return views
        log_scale, shift = (float(value) for value in np.array(parameters[DEPTH_SCALE]))
        return replace(views, depth=views.depth.moved(float(np.exp(log_scale)), shift))

    def measured(self, parameters: Parameters, sensor: mx.array) -> mx.array:
        """Return the measured distances and confidences (rays, 2) with the refined scale and shift,
        without gradients."""
        if not self.config.depth_scale:
            return sensor
        distance = mx.stop_gradient(_rescaled(parameters, sensor))
        return mx.stack([distance, sensor[:, 1]], axis=1)

    def depth_scale_loss(
        self, parameters: Parameters, sensor: mx.array, seen: Composited
    ) -> mx.array:
        """Return the loss (rays,) that trains the scale and the shift: the sensor loss of the mean
        depth of each ray, in which only the measured distance has a gradient. The value is 0.

        The penalties of samples have no gradient with respect to the measured distance.
        """
        opacity = mx.stop_gradient(seen.opacity)
        rendered = mx.stop_gradient(seen.weighted_depth) / mx.maximum(opacity, OPAQUE)
        miss = mx.abs(rendered / _rescaled(parameters, sensor) - 1.0) / SENSOR_REACH
        loss = mx.where(opacity > OPAQUE, sensor[:, 1] * mx.minimum(miss, 1.0), 0.0)
        return loss - mx.stop_gradient(loss)

    @property
    def changes_colors(self) -> bool:
        """Whether each training view has a trained exposure or color map."""
        return self.config.exposures or self.config.colors

    def expose(
        self, seen: Composited, parameters: Parameters, view: mx.array, background: mx.array
    ) -> Composited:
        """Apply the exposure and the color map of each ray's training view.

        Args:
            seen: Rays, with colors premultiplied by the opacity.
            parameters: Parameters that include the exposures and color maps.
            view: (rays,) int32, index of the training view of each ray.
            background: (rays, 3) float32, color behind each ray, which is not changed.

        Returns:
            The rays, with changed colors over the background.
        """
        color, opacity = seen.color, seen.opacity
        if self.config.exposures:
            # A color map changes the exposed color, but not the background.
            behind = None if self.config.colors else background
            color = expose(color, opacity, parameters[EXPOSURES], view, behind)
        if self.config.colors:
            maps = parameters[COLORS]
            affine = (maps - maps.mean(axis=0))[view]
            mixed = (affine[:, :9].reshape(-1, 3, 3) * color[:, None, :]).sum(axis=2)
            color = color + mixed + opacity[:, None] * affine[:, 9:]
        if self.config.colors or not self.config.exposures:
            color = color + (1.0 - opacity[:, None]) * background
        return seen._replace(color=color)


def _rescaled(parameters: Parameters, sensor: mx.array) -> mx.array:
    """Return the measured distances (rays,), which are positive, with refined scale and shift."""
    log_scale, shift = mx.split(parameters[DEPTH_SCALE], 2)
    return mx.maximum(mx.exp(log_scale) * sensor[:, 0] + shift, 1e-3)


def moved_poses(poses: mx.array, deltas: mx.array) -> mx.array:
    """Change each pose [R | t] in `poses` (n, 3, 4) to [exp(w) R | t + v], where `deltas` (n, 6)
    contains w and v. The rotation exp(w) is computed with Rodrigues' formula (1840)."""
    turn = deltas[:, None, :3]
    angle = mx.maximum(mx.linalg.norm(turn, axis=-1, keepdims=True), 1e-12)
    axes = poses[:, :, :3].swapaxes(1, 2)  # (n, axis, 3)
    once = mx.linalg.cross(mx.broadcast_to(turn, axes.shape), axes)
    twice = mx.linalg.cross(mx.broadcast_to(turn, axes.shape), once)
    half = mx.sin(0.5 * angle) / angle
    turned = axes + mx.sin(angle) / angle * once + 2.0 * half * half * twice
    position = poses[:, :, 3:] + deltas[:, 3:, None]
    return mx.concatenate([turned.swapaxes(1, 2), position], axis=2)


def align_poses(poses: Float64Array, initial: Float64Array, refined: Float64Array) -> Float64Array:
    """Move camera-to-scene `poses` (m, 3, 4) by the similarity transform that best maps the
    training cameras `initial` (n, 3, 4) to `refined` (n, 3, 4).

    Refinement may rotate, shift, and scale all training cameras and the field together without
    changing the images. Test cameras therefore require the same transform (BARF, Lin et al. 2021,
    section 4.1). The rotation is the mean of the rotations from each initial camera to its refined
    camera, so a single camera is sufficient. Scale and shift are a least-squares fit of the camera
    positions.
    """
    u, _, v = np.linalg.svd(np.einsum("nij,nkj->ik", refined[:, :, :3], initial[:, :, :3]))
    rotation = u @ np.diag([1.0, 1.0, np.linalg.det(u @ v)]) @ v
    before, after = initial[:, :, 3] @ rotation.T, refined[:, :, 3]
    mean_before, mean_after = before.mean(axis=0), after.mean(axis=0)
    spread = float(np.square(before - mean_before).sum())
    product = float(((after - mean_after) * (before - mean_before)).sum())
    scale = product / spread if spread > 1e-12 else 1.0
    position = scale * (poses[:, :, 3] @ rotation.T - mean_before) + mean_after
    return np.concatenate([rotation @ poses[:, :, :3], position[:, :, None]], axis=2)


def align_cameras(cameras: Cameras, initial: Cameras, refined: Cameras) -> Cameras:
    """Move `cameras` by the similarity transform that best maps the cameras `initial` to
    `refined`."""
    poses = (np.array(group.poses, np.float64) for group in (cameras, initial, refined))
    return replace(cameras, poses=mx.array(align_poses(*poses).astype(np.float32)))
