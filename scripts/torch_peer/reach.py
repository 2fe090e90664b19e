"""Selection of visible samples in PyTorch, with the rules of `MarchingSampler` without thinning.

First, only the density of all marched samples is computed, without gradients. In a training step,
the samples of each ray are used up to the point where the transmittance falls below the threshold.
These samples are packed into the slots for the networks, the compositing, and all gradients. For
the occupancy grid, the cells up to this point are marked as visible. The number of slots is fixed
before and after the selection, so that shapes are constant and the host never waits for a GPU.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from nerfmac.common.constants import EARLY_STOP_TRANSMITTANCE, FAR_DISTANCE
from nerfmac.config import MarchConfig
from nerfmac.sampling.occupancy import UPDATE_SAMPLES
from torch_peer.composite import is_reached, weights
from torch_peer.march import Marcher, TorchSamples, numbers


class ReachSampler:
    """Sampler of the visible samples in occupied cells, and of the visible cells."""

    def __init__(
        self, march: Marcher, config: MarchConfig, compiler: Callable[..., Callable]
    ) -> None:
        """Create the object. `compiler` compiles a function, like `torch.compile`, or returns it
        unchanged."""
        self._march = march
        self._slots = config.max_samples
        self._room = config.march_factor * config.max_samples
        self._count = compiler(self._count_reached)
        self._end = compiler(self._light_ends)
        self._keep = compiler(self._kept)

    @torch.no_grad()
    def __call__(
        self,
        origins: torch.Tensor,
        directions: torch.Tensor,
        jitter: torch.Tensor,
        occupied: torch.Tensor,
        density: Callable[[torch.Tensor], torch.Tensor],
    ) -> TorchSamples:
        """Return the visible samples of rays in the cells of `occupied` (cells,) bool. Rays are
        given as for `Marcher`.

        `density` returns the density (points,) per scene unit at positions (points, 3).
        """
        rays = origins, directions, jitter
        is_sample = self._march.find(*rays, occupied)
        marched = is_sample.sum(1)
        number = numbers(is_sample, self._room)
        tried = self._tried(*rays, number, marched)
        reached = self._count(density(tried.position), tried)
        # If a ray does not fit into the candidate slots, it has no samples, but all of its samples
        # count as wanted.
        wanted = torch.where(tried.fits, reached, marched)
        samples = self._march.write(*rays, *self._keep(number, marched, reached), wanted)
        # The demand is computed as in `nerfmac.ops.packing.samples_per_ray`, over the rays that
        # begin within the candidate slots.
        tried_ends, kept_ends = marched.cumsum(0), wanted.cumsum(0)
        begun = ((tried_ends <= self._room).sum() + 1).clamp_max(len(wanted))
        in_room = tried_ends[begun - 1].float() * (self._slots / self._room)
        return samples._replace(demand=torch.maximum(kept_ends[begun - 1].float(), in_room) / begun)

    @torch.no_grad()
    def lit(
        self,
        origins: torch.Tensor,
        directions: torch.Tensor,
        jitter: torch.Tensor,
        occupied: torch.Tensor,
        density: Callable[[torch.Tensor], torch.Tensor],
    ) -> torch.Tensor:
        """Return a boolean array (cells,) that is True for cells that are visible along the rays.
        The arguments are the same as in `__call__`.

        Rays that do not fit into the candidate slots mark no cells as visible.
        """
        rays = origins, directions, jitter
        is_sample = self._march.find(*rays, occupied)
        number = numbers(is_sample, UPDATE_SAMPLES * len(jitter))
        tried = self._tried(*rays, number, is_sample.sum(1))
        return self._march.lit(*rays, self._end(density(tried.position), tried))

    def _tried(
        self,
        origins: torch.Tensor,
        directions: torch.Tensor,
        jitter: torch.Tensor,
        number: torch.Tensor,
        marched: torch.Tensor,
    ) -> TorchSamples:
        """Return the candidate samples, in the intervals with the indices `number` (room,).

        `marched` (rays,) is the number of samples of each ray. If the candidate slots are too few
        for all samples of a ray, this ray and all later rays have no samples in the result.
        """
        kept = torch.where(marched.cumsum(0) <= len(number), marched, 0)
        is_used = torch.arange(len(number), device=number.device) < kept.sum()
        number = torch.where(is_used, number, -1)
        return self._march.write(origins, directions, jitter, number, kept, marched)

    def _count_reached(self, density: torch.Tensor, tried: TorchSamples) -> torch.Tensor:
        """Return the number of visible candidate samples of each ray, int64 (rays,)."""
        lit = self._is_reached(density, tried)
        return torch.zeros_like(tried.wanted).index_add(0, tried.ray, lit.to(torch.int64))

    def _light_ends(self, density: torch.Tensor, tried: TorchSamples) -> torch.Tensor:
        """Return the termination distances (rays,), float32, as in
        `nerfmac.ops.visibility.termination_distances`."""
        dark = tried.distance.new_zeros(len(tried.wanted))
        longest = self._march.geometry.most_intervals
        weight = weights(density, tried.width, tried.place, longest)
        opacity = dark.index_add(0, tried.ray, weight)
        # The end is half a step farther, so that rounding cannot exclude the last sample.
        end = tried.distance + 0.5 * tried.width
        end = torch.where(self._is_reached(density, tried), end, 0.0)
        last = dark.scatter_reduce(0, tried.ray, end, "amax")
        is_opaque = opacity > 1.0 - EARLY_STOP_TRANSMITTANCE
        return torch.where(tried.fits, torch.where(is_opaque, last, FAR_DISTANCE), 0.0)

    def _is_reached(self, density: torch.Tensor, tried: TorchSamples) -> torch.Tensor:
        """Return a boolean array (room,) that is True for visible samples."""
        longest = self._march.geometry.most_intervals
        return is_reached(density, tried.width, tried.place, longest)

    def _kept(
        self, number: torch.Tensor, marched: torch.Tensor, reached: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the indices (slots,) of the kept intervals, and the number (rays,) of kept
        intervals of each ray.

        If the slots are too few for all samples of a ray, this ray and all later rays keep no
        samples.
        """
        kept = torch.where(reached.cumsum(0) <= self._slots, reached, 0)
        ends = kept.cumsum(0)
        slot = torch.arange(self._slots, device=number.device)
        ray = torch.searchsorted(ends, slot, right=True).clamp_max(len(ends) - 1)
        skipped = (marched.cumsum(0) - marched) - (ends - kept)  # samples omitted in earlier rays
        source = (slot + skipped[ray]).clamp_max(len(number) - 1)
        return torch.where(slot < ends[-1], number[source], -1), kept
