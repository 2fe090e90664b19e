"""Occupancy grid in PyTorch, with the same rules as `nerfmac.sampling.occupancy`."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

import torch

from nerfmac.common.constants import NEVER_OCCUPIED
from nerfmac.config import OccupancyConfig
from nerfmac.geometry.cells import cells_of
from nerfmac.ops.march import MarchGeometry
from nerfmac.sampling.occupancy import MAX_WARMUP_POINTS


class TorchOccupancy:
    """Occupancy grid with its update rule and its state.

    The state consists of `values` (cells,) float32, `dark` (cells,) int32, and `occupied` (cells,)
    bool.
    """

    def __init__(
        self, config: OccupancyConfig, geometry: MarchGeometry, dark: torch.Tensor
    ) -> None:
        """Create the grid from `dark`, as returned by `OccupancyGrid.init`. Cells that have been
        visible are occupied."""
        self._config, self._geometry = config, geometry
        self.values, self.dark = torch.zeros(geometry.cells, device=dark.device), dark
        self.occupied, self._updates = dark < config.visibility_patience, 0

    @torch.no_grad()
    def update(
        self,
        density: Callable[[torch.Tensor], torch.Tensor],
        lit: torch.Tensor,
        step: int,
        generator: torch.Generator,
    ) -> None:
        """Evaluate the density in some cells and update the grid.

        `density` returns the density (points,) per scene unit at positions (points, 3). `lit`
        (cells,) bool marks the cells that are currently visible.
        """
        is_warmup = step < self._config.warmup_steps
        cells = self._choose(is_warmup, generator)
        jitter = torch.rand(len(cells), 3, generator=generator, device=cells.device)
        lowest, side = self._corner(cells)
        thickness = density(lowest + jitter * side[:, None]) * self._geometry.step
        peaks = torch.zeros_like(self.values).scatter_reduce_(0, cells, thickness, "amax")
        self.values = torch.maximum(self.values * self._config.decay, peaks)
        self._updates += int(not is_warmup)
        longest = self._config.visibility_patience
        dark = torch.where(lit, 0, (self.dark + int(not is_warmup)).clamp_max(longest))
        self.dark = torch.where(self.dark == NEVER_OCCUPIED, NEVER_OCCUPIED, dark)
        patience = min(max(self._updates // 2, longest // 8, 1), longest)
        shown = torch.where(self.dark < patience, self.values, 0.0)
        innermost = shown[: self._geometry.resolution**3]
        self.occupied = shown > innermost.mean().clamp_max(self._config.threshold)

    def _choose(self, is_warmup: bool, generator: torch.Generator) -> torch.Tensor:
        """Return the cells to visit, int64."""
        config, total = self._config, len(self.values)
        count = ceil(total * (config.warmup_fraction if is_warmup else config.fraction))
        if is_warmup:
            return self._draw(min(count, MAX_WARMUP_POINTS), generator)
        occupied = self.occupied.nonzero()[:, 0]
        uniform = torch.rand(count // 2, generator=generator, device=occupied.device)
        # If no cells are occupied, none can be drawn.
        chosen = occupied[(uniform * len(occupied)).long()] if len(occupied) else occupied
        return torch.cat([self._draw(count - count // 2, generator), chosen])

    def _draw(self, count: int, generator: torch.Generator) -> torch.Tensor:
        """Return stratified random cells (count,) int64, one in each of `count` equal ranges."""
        total = len(self.values)
        begin = torch.arange(count, device=self.values.device)
        if count == total:
            return begin
        jitter = torch.rand(count, generator=generator, device=self.values.device)
        return ((begin + jitter) * (total / count)).long().clamp_max(total - 1)

    def _corner(self, cells: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the lowest corner (cells, 3) of each cell in scene coordinates, and its side
        (cells,)."""
        resolution = self._geometry.resolution
        cascade, *place = cells_of(cells, resolution)
        size = torch.exp2(cascade.float())
        side = size / resolution
        return 0.5 - 0.5 * size[:, None] + torch.stack(place, 1) * side[:, None], side
