"""Marching rays in PyTorch, with the rules of `nerfmac.ops.march`.

Every interval of every ray is looked up in the occupancy grid. The indices of the occupied
intervals, counted over all rays, are packed. Samples are computed from the indices of their
intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import log
from typing import NamedTuple

import torch

from nerfmac.geometry.cells import Cells, number_of
from nerfmac.ops.march import MarchGeometry

_AT_ONCE = 2**22
"""Maximum number of intervals that are looked up at a time. This limits memory if the operations
are not fused."""


class TorchSamples(NamedTuple):
    """Like `Samples` of nerfmac, as tensors, with `place` and `used` instead of `ray_start`."""

    position: torch.Tensor  # (slots, 3) float32
    distance: torch.Tensor  # (slots,) float32
    width: torch.Tensor  # (slots,) float32
    ray: torch.Tensor  # (slots,) int64; 0 for unused slots
    place: torch.Tensor  # (slots,) int64, index of the sample on its ray; -1 for unused slots
    wanted: torch.Tensor  # (rays,) int64
    fits: torch.Tensor  # (rays,) bool
    used: torch.Tensor  # int64 scalar, number of used slots
    demand: torch.Tensor  # float32 scalar, as `Sampled.mean_samples_per_ray`


class Marcher:
    """Ray marching through an occupancy grid with a given geometry.

    Rays consist of `origins` (rays, 3), unit `directions` (rays, 3), and `jitter` (rays,), the
    position of samples in their intervals, in [0, 1).
    """

    def __init__(self, geometry: MarchGeometry, compiler: Callable[..., Callable]) -> None:
        """Create the object. `compiler` compiles a function, like `torch.compile`, or returns it
        unchanged."""
        self.geometry = geometry
        self._find = compiler(self._is_sample)
        self._find_lit = compiler(self._lit_places)
        self.write = compiler(self._samples)

    def __call__(
        self,
        origins: torch.Tensor,
        directions: torch.Tensor,
        jitter: torch.Tensor,
        occupied: torch.Tensor,
    ) -> TorchSamples:
        """Return all samples of the rays in the cells of `occupied` (cells,) bool.

        The function waits for the device, because the number of slots must be known.
        """
        is_sample = self.find(origins, directions, jitter, occupied)
        wanted = is_sample.sum(1)
        slots = max(int(wanted.sum()), 2)  # sizes 0 and 1 would be compiled separately
        number = numbers(is_sample, slots)
        return self.write(origins, directions, jitter, number, wanted, wanted)

    def find(
        self,
        origins: torch.Tensor,
        directions: torch.Tensor,
        jitter: torch.Tensor,
        occupied: torch.Tensor,
    ) -> torch.Tensor:
        """Return whether the sample of each interval is in an occupied cell, bool (rays,
        intervals)."""
        parts = self._parts(origins, directions, jitter)
        return torch.cat([self._find(*part, occupied) for part in parts])

    def lit(
        self,
        origins: torch.Tensor,
        directions: torch.Tensor,
        jitter: torch.Tensor,
        until: torch.Tensor,
    ) -> torch.Tensor:
        """Return whether each cell contains a possible sample position of a ray up to the distance
        `until` (rays,), bool (cells,). Empty cells can also contain these positions."""
        # Cells that are not visible are mapped to one extra cell that is removed afterwards.
        lit = torch.zeros(self.geometry.cells + 1, dtype=torch.bool, device=jitter.device)
        for part in self._parts(origins, directions, jitter, until):
            lit[self._find_lit(*part)] = True
        return lit[:-1]

    def _parts(self, *rays: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
        """Split tensors (rays, ...) into parts, so that the intervals of a part fit into memory."""
        count = max(1, _AT_ONCE // self.geometry.most_intervals)
        return zip(*(each.split(count) for each in rays), strict=True)

    def _is_sample(
        self,
        origins: torch.Tensor,
        directions: torch.Tensor,
        jitter: torch.Tensor,
        occupied: torch.Tensor,
    ) -> torch.Tensor:
        """Compute `find` for a part of the rays. The intervals of this part must fit into
        memory."""
        cell, _ = self._places(origins, directions, jitter)
        return (cell >= 0) & occupied[cell.clamp_min(0)]

    def _lit_places(
        self,
        origins: torch.Tensor,
        directions: torch.Tensor,
        jitter: torch.Tensor,
        until: torch.Tensor,
    ) -> torch.Tensor:
        """Return the cell of each interval, int64 (rays, intervals). For intervals behind `until`,
        the value is the number of cells."""
        cell, distance = self._places(origins, directions, jitter)
        is_lit = (cell >= 0) & (distance <= until[:, None])
        return torch.where(is_lit, cell, self.geometry.cells)

    def _places(
        self, origins: torch.Tensor, directions: torch.Tensor, jitter: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the cell and the distance of the sample position in each interval, both (rays,
        intervals). Outside all cascades, the cell is -1.

        Distances are float32, and cells are int64.
        """
        geometry = self.geometry
        enter, leave = self._span(origins, directions)
        first = self._number(enter)
        room = self._number(leave) - first
        intervals = torch.where(leave > enter, torch.ceil(room - jitter), 0.0)
        k = torch.arange(geometry.most_intervals, device=jitter.device, dtype=jitter.dtype)
        distance = self._distance(first[:, None] + k + jitter[:, None])
        position = (
            origins[:, axis, None] + directions[:, axis, None] * distance for axis in range(3)
        )
        cell = _cell_of(position, geometry)
        return torch.where(k < intervals[:, None], cell, -1), distance

    def _samples(
        self,
        origins: torch.Tensor,
        directions: torch.Tensor,
        jitter: torch.Tensor,
        number: torch.Tensor,
        kept: torch.Tensor,
        wanted: torch.Tensor,
    ) -> TorchSamples:
        """Return the samples of the intervals with the indices `number` (slots,), counted over all
        rays. The index is -1 for unused slots.

        The result contains the first `kept` (rays,) samples of each ray. `wanted` (rays,) is the
        total number of samples.
        """
        is_alive = number >= 0
        ray = number.clamp_min(0) // self.geometry.most_intervals
        k = number.clamp_min(0) % self.geometry.most_intervals
        first = self._number(self._span(origins, directions)[0])[ray] + k
        distance = self._distance(first + jitter[ray])
        width = self._distance(first + 1.0) - self._distance(first)
        position = origins[ray] + directions[ray] * distance[:, None]
        begin = kept.cumsum(0) - kept
        place = torch.arange(len(number), device=number.device) - begin[ray]
        return TorchSamples(
            torch.where(is_alive[:, None], position, 0.0),
            torch.where(is_alive, distance, 0.0),
            torch.where(is_alive, width, 0.0),
            ray,
            torch.where(is_alive, place, -1),
            wanted,
            kept == wanted,
            kept.sum(),
            wanted.float().mean(),
        )

    def _span(
        self, origins: torch.Tensor, directions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the distances (rays,) to the points where rays enter and leave the scene cube."""
        half = self.geometry.bounds.extent / 2
        offset = origins - 0.5
        is_flat = directions.abs() < 1e-9
        slope = torch.where(is_flat, 1.0, directions)
        a, b = (-half - offset) / slope, (half - offset) / slope
        is_outside = (is_flat & (offset.abs() > half)).any(1)
        enter = torch.where(is_flat, -1e9, torch.minimum(a, b)).amax(1)
        leave = torch.where(is_flat, 1e9, torch.maximum(a, b)).amin(1)
        return enter.clamp_min(self.geometry.near), torch.where(is_outside, -1.0, leave)

    def _number(self, distance: torch.Tensor) -> torch.Tensor:
        step, cone = self.geometry.step, self.geometry.cone
        if cone == 0:
            return distance / step
        far = torch.log((cone * distance / step).clamp_min(1.0)) * (cone / log(1 + cone))
        return torch.where(cone * distance <= step, distance / step, (1.0 + far) / cone)

    def _distance(self, number: torch.Tensor) -> torch.Tensor:
        step, cone = self.geometry.step, self.geometry.cone
        if cone == 0:
            return number * step
        far = step / cone * torch.exp((cone * number - 1.0) * (log(1 + cone) / cone))
        return torch.where(cone * number <= 1.0, number * step, far)


def numbers(is_sample: torch.Tensor, slots: int) -> torch.Tensor:
    """Return the indices (slots,) int64 of the first True entries over all rays, padded with
    -1."""
    return is_sample.flatten().nonzero_static(size=slots, fill_value=-1)[:, 0]


def _cell_of(position: Iterable[torch.Tensor], geometry: MarchGeometry) -> torch.Tensor:
    """Return the occupancy cell of each position, int64, or -1 outside all cascades.

    `position` consists of the x, y, and z coordinates.
    """
    resolution, cascades = geometry.resolution, geometry.bounds.cascades
    offsets = [coordinate - 0.5 for coordinate in position]
    reach = torch.maximum(torch.maximum(offsets[0].abs(), offsets[1].abs()), offsets[2].abs())
    cascade = torch.zeros_like(reach)
    for each in range(cascades):
        cascade = cascade + (reach >= 0.5 * 2.0**each)
    size = torch.exp2(cascade)
    places = [
        ((offset + 0.5 * size) * (resolution / size)).long().clamp(0, resolution - 1)
        for offset in offsets
    ]
    number = number_of(Cells(cascade.long(), *places), resolution)
    return torch.where(cascade < cascades, number, -1)
