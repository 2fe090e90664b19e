"""The samples of a training step in PyTorch; the rules are `nerfmac.sampling.marching`'s.

The density alone of all marched samples is computed first, without a gradient. Each ray's samples
then end where its light does, and those left are packed into the slots that the networks, the
compositing and every gradient see. The number of slots is fixed, before and after, so that shapes
stay and a GPU is never waited for.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from nerfmac.config import TrainConfig
from torch_peer.composite import is_reached
from torch_peer.march import Marcher, TorchSamples, numbers


class ReachSampler:
    """Samples that light reaches in occupied cells."""

    def __init__(
        self, march: Marcher, config: TrainConfig, compiler: Callable[..., Callable]
    ) -> None:
        """`compiler` makes a function faster, as `torch.compile` does, or gives it back."""
        self._march = march
        self._slots, self._room = config.slots, config.candidates * config.slots
        self._count = compiler(self._count_reached)
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
        """The samples of rays, as `Marcher` takes them, in `occupied` (cells,) bool.

        `density` gives (points,) per scene unit at (points, 3).
        """
        rays = origins, directions, jitter
        is_sample = self._march.find(*rays, occupied)
        marched = is_sample.sum(1)
        # Rays that do not fit into the room lose no samples. Those of them that are kept have
        # samples past the room, but no more of them than there are slots.
        number = numbers(is_sample, self._room + self._slots)
        wanted = marched
        if self._room:
            tried = self._march.write(*rays, number[: self._room], marched, marched)
            found = density(tried.position)
            wanted = self._count(found, tried.width, tried.ray, tried.place, marched)
        kept_number, kept = self._keep(number, marched, wanted)
        return self._march.write(*rays, kept_number, kept, wanted)

    def _count_reached(
        self,
        density: torch.Tensor,
        width: torch.Tensor,
        ray: torch.Tensor,
        place: torch.Tensor,
        marched: torch.Tensor,
    ) -> torch.Tensor:
        """(rays,) int64: samples before the ray's end; all of a ray that does not fit the room."""
        lit = is_reached(density, width, place, self._march.geometry.most_intervals)
        reached = torch.zeros_like(marched).index_add(0, ray, lit.to(marched.dtype))
        return torch.where(marched.cumsum(0) <= self._room, reached, marched)

    def _kept(
        self, number: torch.Tensor, marched: torch.Tensor, wanted: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Numbers (slots,) of the intervals that are kept, and how many (rays,) are, of each ray.

        The first ray whose samples do not all fit into the slots, and those after it, keep none.
        """
        kept = torch.where(wanted.cumsum(0) <= self._slots, wanted, 0)
        ends = kept.cumsum(0)
        slot = torch.arange(self._slots, device=number.device)
        ray = torch.searchsorted(ends, slot, right=True).clamp_max(len(ends) - 1)
        skipped = (marched.cumsum(0) - marched) - (ends - kept)  # samples left out in rays before
        source = (slot + skipped[ray]).clamp_max(len(number) - 1)
        return torch.where(slot < ends[-1], number[source], -1), kept
