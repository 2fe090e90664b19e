"""Alpha compositing in PyTorch, with the same rules as `nerfmac.ops.composite`."""

from __future__ import annotations

import torch

from nerfmac.common.constants import EARLY_STOP_TRANSMITTANCE


def weights(
    density: torch.Tensor, width: torch.Tensor, place: torch.Tensor, longest: int
) -> torch.Tensor:
    """Return the compositing weight (slots,) of each sample.

    `place` (slots,) is the number of a sample on its ray, starting at 0, or -1 for an unused slot.
    No ray has more than `longest` samples.
    """
    optical, transmittance = _light(density, width, place, longest)
    is_seen = (place >= 0) & (transmittance.detach() >= EARLY_STOP_TRANSMITTANCE)
    return torch.where(is_seen, transmittance * (1.0 - torch.exp(-optical)), 0.0)


def is_reached(
    density: torch.Tensor, width: torch.Tensor, place: torch.Tensor, longest: int
) -> torch.Tensor:
    """Return a boolean array (slots,) that is True for visible samples. The arguments are the same
    as in `weights`."""
    return (place >= 0) & (_light(density, width, place, longest)[1] >= EARLY_STOP_TRANSMITTANCE)


def _light(
    density: torch.Tensor, width: torch.Tensor, place: torch.Tensor, longest: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the optical thickness of each sample, and the transmittance in front of it."""
    optical = torch.where(place >= 0, density * width, 0.0)
    return optical, torch.exp(-_sum_before(optical, place, longest))


def _sum_before(values: torch.Tensor, place: torch.Tensor, longest: int) -> torch.Tensor:
    """Return, for each slot, the sum (slots,) over the previous slots of the same ray.

    The sums are computed by doubling. Differences of one `cumsum` over all slots would be half a
    millisecond faster. However, they require float64, and Apple GPUs do not support float64.
    """
    values = torch.where(place >= 1, values.roll(1), 0.0)
    shift = 1
    while shift < longest:
        values = values + torch.where(place >= shift, values.roll(shift), 0.0)
        shift *= 2
    return values
