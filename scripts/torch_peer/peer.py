"""`TorchPeer` implements the training step and the rendering of nerfmac in PyTorch.

The devices cpu, cuda, and mps are supported.

The initial parameters, the initial occupancy grid, and the training recipe are the same as in the
`Trainer` of nerfmac, with these exceptions:

- The random numbers differ.
- Adam of PyTorch stores both moments as float32 and changes entries without a gradient by their
  momentum.
- The color loss is the only loss. Thinning, gradient scaling, masks, and camera refinement are
  missing. In a scene larger than the unit cube, set `march.thin_below`, `train.occlusion`, and
  `train.gradient_scaling` to 0 to train nerfmac with the same recipe. `compare` does not do this.

The implementation uses `torch.compile` for computations on all samples and intervals, fused Adam,
and, on CUDA, half precision for the networks with scaled gradients.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from nerfmac.backend.host import processors
from nerfmac.common import FAR_DISTANCE, InputError
from nerfmac.config import Config
from nerfmac.geometry import Bounds, Camera, Views
from nerfmac.sampling.occupancy import RENDER_CONE, march_geometry
from nerfmac.training.optimizer import is_averaged, newest_weight
from nerfmac.training.ray_budget import RayBudget
from nerfmac.training.resolve import settled
from tests.scene_factory import initial, trainer_of
from torch_peer.composite import weights
from torch_peer.field import TorchField, spherical_harmonics
from torch_peer.march import Marcher, TorchSamples
from torch_peer.occupancy import TorchOccupancy
from torch_peer.pixels import TorchPixels, rays_of
from torch_peer.reach import ReachSampler


class TorchPeer:
    """Field that is trained with PyTorch. Rendering uses the averaged parameters."""

    def __init__(
        self, config: Config, extent: float, views: Views, device: str, *, compiled: bool = True
    ) -> None:
        """Create the peer. `extent` is the side length of the scene cube, and `views` are the
        training views.

        If `compiled` is True, all functions are compiled by calling them once. If compiling fails,
        uncompiled functions are used, and `note` contains the reason. Raises `InputError` if the
        device is missing, or if the configuration blends in linear light, because the peer does not
        support this.
        """
        if config.train.blend != "srgb":
            raise InputError(f"train.blend is {config.train.blend!r}; the peer needs 'srgb'")
        self.device = _device(device)
        self.config = config = settled(config, Bounds(extent))
        self.geometry = march_geometry(config.march, config.occupancy, Bounds(extent))
        start = initial(trainer_of(config, Bounds(extent), views))
        arrays = {name: np.array(values) for name, values in start.parameters.items()}
        self.field = TorchField(config, extent, arrays).to(self.device)
        self.average = deepcopy(self.field).requires_grad_(False)
        dark = self.tensor(np.array(start.sampling["updates_since_visible"]))
        self.occupancy = TorchOccupancy(config.occupancy, self.geometry, dark)
        self._pixels = TorchPixels(views, self.device)
        self._random = torch.Generator(self.device).manual_seed(config.seed)
        self._is_half = self.device.type == "cuda"
        self._scaler = torch.amp.GradScaler(
            self.device.type, config.train.loss_scale, enabled=self._is_half
        )
        networks = [*self.field.density_layers, *self.field.color_layers]
        self._optimizer = torch.optim.Adam(
            [
                {"params": [self.field.table]},
                {"params": networks, "weight_decay": config.optimizer.l2},
            ],
            lr=config.optimizer.rate,
            betas=(config.optimizer.beta1, config.optimizer.beta2),
            eps=config.optimizer.epsilon,
            fused=True,
        )
        self.steps, self.rays, self._next_update = 0, start.rays, 0
        self._measured = torch.tensor([0.0, 0.0, float(np.array(start.samples_per_ray))])
        self.note = ""
        """Reason why the peer is not compiled. The text is empty if it is compiled."""
        self.build_seconds = self._build(compiled)
        """Compilation time in seconds."""

    @property
    def loss(self) -> float:
        """Loss of the last step. Reading it waits for the device."""
        return float(self._measured[0])

    @property
    def samples_last_step(self) -> int:
        """Number of samples in the last step. Reading it waits for the device."""
        return int(self._measured[1])

    def sync(self) -> None:
        """Wait until the device has finished all computations."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        elif self.device.type == "mps":
            torch.mps.synchronize()

    def step(self, progress: float = 0.0) -> None:
        """Execute a training step with the learning rate for a `progress` in [0, 1]."""
        if self.is_update:
            self._next_update = self.steps + self.config.occupancy.interval_at(self.steps)
            self._update_occupancy(self.steps)
            self.rays = RayBudget.of(self.config).rays(float(self._measured[2]))
        loss, samples = self._loss()
        self._scaler.scale(loss).backward()
        self._move(progress)
        self._measured = torch.stack([loss.detach(), samples.used.float(), samples.demand])

    @property
    def is_update(self) -> bool:
        """Whether the next step first updates the occupancy grid."""
        return self.steps >= self._next_update

    def tensor(self, array: npt.NDArray[Any]) -> torch.Tensor:
        """Return a copy of `array` on the device."""
        return torch.tensor(array, device=self.device)

    @torch.no_grad()
    def infer(self, origins: torch.Tensor, directions: torch.Tensor) -> torch.Tensor:
        """Return the color over black and the opacity (rays, 4) of rays (rays, 3), on the
        device."""
        middle = torch.full_like(origins[:, 0], 0.5)
        samples = self._march_finely(origins, directions, middle, self.occupancy.occupied)
        return self._see(self._shade_any, self.average, samples, directions)

    def render(
        self, camera: Camera, background: tuple[float, float, float] = (1.0, 1.0, 1.0)
    ) -> npt.NDArray[np.float32]:
        """Render the image (h, w, 3) of a camera over `background`, sRGB in [0, 1]."""
        # A training step can have many more rays, because it omits samples that are not visible.
        # Rendering does not omit them.
        rays = self.config.train.rays
        parts = zip(*(part.split(rays) for part in rays_of(camera, self.device)), strict=True)
        seen = torch.cat([self.infer(*part) for part in parts])
        behind = torch.tensor(background, device=self.device)
        color = (seen[:, :3] + (1.0 - seen[:, 3:]) * behind).clamp(0.0, 1.0)
        return color.view(camera.lens.height, camera.lens.width, 3).cpu().numpy()

    def _build(self, compiled: bool) -> float:
        """Compile the functions if `compiled` is True, call each function once, and return the time
        in seconds."""
        start = time.perf_counter()
        if self.device.type == "cpu":
            torch.set_num_threads(processors())
        self._compile_with(torch.compile if compiled else _as_it_is)
        try:
            self._trial()
        except Exception as error:  # the compiler is missing or does not support the device
            if not compiled:
                raise
            self.note = f"torch.compile failed ({type(error).__name__}): not compiled"
            self._compile_with(_as_it_is)
            self._trial()
        return time.perf_counter() - start

    def _compile_with(self, compiler: Callable[..., Any]) -> None:
        # During training the number of rays changes, but the number of slots does not.
        any_size = partial(compiler, dynamic=True)
        # Marching steps are shorter in an image than in training.
        step = self.geometry.step / self.config.march.render_step_divisor
        cone = min(self.geometry.cone, RENDER_CONE)
        finer = replace(self.geometry, step=step, cone=cone)
        self._march_finely = Marcher(finer, any_size)
        shade, shade_finely = (
            partial(self._shade_samples, each.most_intervals) for each in (self.geometry, finer)
        )
        self._shade, self._shade_any = compiler(shade, dynamic=False), any_size(shade_finely)
        self._density = compiler(self._densities, dynamic=False)
        self._march = Marcher(self.geometry, any_size)
        self._sample = ReachSampler(self._march, self.config.march, any_size)

    def _trial(self) -> None:
        """Execute all computations of training and rendering once, without changing the state."""
        random, occupancy = self._random.get_state(), self.occupancy
        self.occupancy = deepcopy(occupancy)
        try:
            for step in (0, self.config.occupancy.warmup_steps):
                self._update_occupancy(step)
            self._loss()[0].backward()
            self._optimizer.zero_grad()
            self._optimizer.step()  # without gradients, this call only performs lazy imports
            # One ray from the middle and then several, because their shapes are compiled
            # separately.
            for rays in (1, 5):
                middle = torch.full((rays, 3), 0.5, device=self.device)
                self.infer(middle, functional.normalize(middle))
            self.sync()
        finally:
            self._random.set_state(random)
            self.occupancy = occupancy

    def _update_occupancy(self, step: int) -> None:
        """Update the occupancy grid before training step `step`."""
        followed = self.config.occupancy.visibility_rays
        origins, directions, _ = self._pixels.draw(followed, self._random)
        jitter = torch.rand(followed, generator=self._random, device=self.device)
        rays = origins, directions, jitter
        if step < self.config.occupancy.warmup_steps:  # all cells in view count as visible
            lit = self._march.lit(*rays, torch.full_like(jitter, FAR_DISTANCE))
        else:
            lit = self._sample.lit(*rays, self.occupancy.occupied, self._density)
        self.occupancy.update(self._density, lit, step, self._random)

    def _loss(self) -> tuple[torch.Tensor, TorchSamples]:
        """Return the loss on randomly drawn pixels, and the samples on their rays."""
        origins, directions, rgba = self._pixels.draw(self.rays, self._random)
        uniform = partial(torch.rand, generator=self._random, device=self.device)
        jitter, background = uniform(self.rays), uniform(self.rays, 3)
        rays = origins, directions, jitter
        samples = self._sample(*rays, self.occupancy.occupied, self._density)
        seen = self._see(self._shade, self.field, samples, directions)
        predicted = seen[:, :3] + (1.0 - seen[:, 3:]) * background
        target = rgba[:, :3] * rgba[:, 3:] + background * (1.0 - rgba[:, 3:])
        delta = self.config.train.huber
        error = functional.huber_loss(predicted, target, delta=delta, reduction="none") / delta
        fits = samples.fits[:, None].float()
        return (error * fits).sum() / (3.0 * fits.sum()).clamp_min(1.0), samples

    def _move(self, progress: float) -> None:
        """Update the parameters with their gradients, and update the average."""
        config = self.config.optimizer
        table, networks = self._optimizer.param_groups
        table["lr"] = config.rate * config.factor_at(progress, self.steps)
        networks["lr"] = config.networks * table["lr"]
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._optimizer.zero_grad()
        self.steps += 1
        if not is_averaged(self.steps):
            return
        weight = newest_weight(self.steps, config)
        both = zip(self.average.parameters(), self.field.parameters(), strict=True)
        with torch.no_grad():
            for average, parameter in both:
                average.lerp_(parameter, weight)

    def _see(
        self,
        shade: Callable[..., torch.Tensor],
        field: TorchField,
        samples: TorchSamples,
        directions: torch.Tensor,
    ) -> torch.Tensor:
        """Return the color over black and the opacity (rays, 4)."""
        direction = directions[samples.ray]
        added = shade(field, samples.position, direction, samples.width, samples.place)
        rays = added.new_zeros(len(directions), 4)
        return rays.index_add(0, samples.ray, added)

    def _shade_samples(
        self,
        longest: int,
        field: TorchField,
        position: torch.Tensor,
        direction: torch.Tensor,
        width: torch.Tensor,
        place: torch.Tensor,
    ) -> torch.Tensor:
        """Return the contribution (slots, 4) of each sample to the color and opacity of its ray.

        No ray has more than `longest` samples.
        """
        with torch.autocast(self.device.type, torch.float16, enabled=self._is_half):
            density, embedding = field.density(position)
            color = field.color(embedding, spherical_harmonics(direction))
        weight = weights(density, width, place, longest)[:, None]
        return torch.cat([weight * color, weight], 1)

    def _densities(self, position: torch.Tensor) -> torch.Tensor:
        with torch.autocast(self.device.type, torch.float16, enabled=self._is_half):
            return self.field.density(position)[0]


def _as_it_is(function: Callable[..., Any], **_: Any) -> Callable[..., Any]:
    return function


def _device(name: str) -> torch.device:
    is_there = {
        "cpu": lambda: True,
        "cuda": torch.cuda.is_available,
        "mps": torch.backends.mps.is_available,
    }
    if name not in is_there:
        raise InputError(f"device is {name!r}; PyTorch's are {', '.join(is_there)}")
    if not is_there[name]():
        raise InputError(f"device is {name!r}; PyTorch finds none on this machine")
    return torch.device(name)
