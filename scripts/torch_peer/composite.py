"""Alpha compositing in PyTorch; the rules are `nerfmac.ops.composite`'s."""

from __future__ import annotations

import torch

from nerfmac.common.constants import EARLY_STOP_TRANSMITTANCE


def weights(
    density: torch.Tensor, width: torch.Tensor, place: torch.Tensor, longest: int
) -> torch.Tensor:
    """(slots,) how much of each sample its ray sees.

    `place` (slots,) numbers a ray's samples from 0, and is -1 where there is none; no ray has more
    than `longest`.
    """
    optical, transmittance = _light(density, width, place, longest)
    is_seen = (place >= 0) & (transmittance.detach() >= EARLY_STOP_TRANSMITTANCE)
    return torch.where(is_seen, transmittance * (1.0 - torch.exp(-optical)), 0.0)


def is_reached(
    density: torch.Tensor, width: torch.Tensor, place: torch.Tensor, longest: int
) -> torch.Tensor:
    """(slots,) bool: whether light reaches the sample, before its ray ends; as in `weights`."""
    return (place >= 0) & (_light(density, width, place, longest)[1] >= EARLY_STOP_TRANSMITTANCE)


def _light(
    density: torch.Tensor, width: torch.Tensor, place: torch.Tensor, longest: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each sample's optical thickness, and what of the light is left before it."""
    optical = torch.where(place >= 0, density * width, 0.0)
    return optical, torch.exp(-_sum_before(optical, place, longest))


def _sum_before(values: torch.Tensor, place: torch.Tensor, longest: int) -> torch.Tensor:
    """(slots,) sum over the slot's ray before the slot.

    It is computed by doubling. Differences of one `cumsum` over all slots would be half a
    millisecond faster, but they need float64, and Apple GPUs do not support it.
    """
    values = torch.where(place >= 1, values.roll(1), 0.0)
    shift = 1
    while shift < longest:
        values = values + torch.where(place >= shift, values.roll(shift), 0.0)
        shift *= 2
    return values
