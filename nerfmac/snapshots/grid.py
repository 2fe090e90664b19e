"""The levels of tiny-cuda-nn's grid, with the rounding of its float32 arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nerfmac.common.json_reader import Fields
from nerfmac.config import HashGridConfig
from nerfmac.config.fields import FEATURES
from nerfmac.fields.encodings import HashGrid
from nerfmac.ops.hash_encode import HashLevels

FINEST = 2048.0
"""Cells along a unit of the finest level, where the file does not say how levels grow."""

MOST_LEVELS, MOST_LOG2_ENTRIES, MOST_CELLS = 128, 30, 2**20
"""Largest numbers of an encoding that are read: levels, log2 of entries, cells along an axis."""

UNLIMITED = 62
"""As `log2_entries`: no level is hashed."""


@dataclass(frozen=True)
class SinglePrecisionLevels(HashLevels):
    """`HashLevels` whose scales are those of tiny-cuda-nn's `grid_scale`, in float32:

    exp2(level log2(growth)) coarsest - 1
    """

    @cached_property
    def scales(self) -> tuple[float, ...]:
        """For each level: grid units per unit of position."""
        level = np.arange(self.levels, dtype=np.float32)
        power = np.exp2(level * np.log2(np.float32(self.growth)))
        return tuple((power * np.float32(self.coarsest) - np.float32(1.0)).tolist())


@dataclass(frozen=True)
class SnapshotGrid(HashGrid):
    """The hash encoding with the levels of a snapshot."""

    given: HashLevels

    @cached_property
    def levels(self) -> HashLevels:
        """The levels of the snapshot."""
        return self.given


def read_levels(encoding: Fields, extent: float) -> tuple[int, HashLevels]:
    """The features of a level, and the levels, that a snapshot's `encoding` describes.

    Raises `InputError` for an encoding that is no grid of nerfmac's kind.
    """
    kind = encoding.text("otype").lower()
    if kind == "grid":
        kind = f"{encoding.text('type') if 'type' in encoding else 'hash'}grid".lower()
    if kind not in ("hashgrid", "densegrid"):
        raise encoding.wrong("otype", "HashGrid or DenseGrid, the encodings that nerfmac has")
    if "interpolation" in encoding and encoding.text("interpolation").lower() != "linear":
        raise encoding.wrong("interpolation", "Linear, the only one that nerfmac has")
    features = encoding.count("n_features_per_level", 2)
    if features not in FEATURES:
        raise encoding.wrong("n_features_per_level", "1, 2, 4 or 8")
    levels = _up_to(MOST_LEVELS, encoding, "n_levels", 16)
    if encoding.values.get("n_features"):
        levels = _up_to(MOST_LEVELS * features, encoding, "n_features") // features
    log2_entries = _up_to(MOST_LOG2_ENTRIES, encoding, "log2_hashmap_size", 19)
    # instant-ngp's own default, other than tiny-cuda-nn's.
    coarsest = 2 ** ((log2_entries if "log2_hashmap_size" in encoding else 15) // 3)
    if encoding.values.get("base_resolution"):
        coarsest = _up_to(MOST_CELLS, encoding, "base_resolution")
    growth = encoding.number("per_level_scale", 0.0)
    if growth <= 0.0:
        growth = (FINEST * extent / coarsest) ** (1.0 / (levels - 1)) if levels > 1 else 1.0
    most = UNLIMITED if kind == "densegrid" else log2_entries
    return features, SinglePrecisionLevels(levels, most, coarsest, growth)


def _up_to(most: int, encoding: Fields, key: str, default: int | None = None) -> int:
    """The count of `key`. Raises `InputError` for more than `most`, before it takes memory."""
    count = encoding.count(key, default)
    if count > most:
        raise encoding.wrong(key, f"up to {most}")
    return count


def written_growth(levels: HashLevels) -> float | None:
    """A growth for which tiny-cuda-nn has the same vertices and entries; None if there is none.

    Where a level's cells are a whole number, rounding decides about one vertex more. So growths
    near the true one are tried, until the vertices stay the same if a GPU rounds otherwise.
    """
    for step in sorted(range(-16, 17), key=abs):
        growth = float(np.float32(levels.growth) * np.float32(1.0 + step * 2.0**-22))
        nearby = (growth * (1.0 + slack) for slack in (-(2.0**-23), 0.0, 2.0**-23))
        shapes = [
            SinglePrecisionLevels(levels.levels, levels.log2_entries, levels.coarsest, each).shapes
            for each in nearby
        ]
        if all(_same(levels, each) for each in shapes):
            return growth
    return None


def _same(levels: HashLevels, shapes: tuple[tuple[int, int, int], ...]) -> bool:
    """Whether entries lie alike; of hashed levels the vertices do not matter."""
    pairs = zip(levels.shapes, shapes, strict=True)
    return all(
        ours[1:] == theirs[1:] and (ours[0] == theirs[0] or levels.is_hashed(level))
        for level, (ours, theirs) in enumerate(pairs)
    )


def grid_config(features: int, levels: HashLevels, extent: float) -> HashGridConfig:
    """The nearest configuration, which says how large the grid is. Raises `InputError`."""
    cells = levels.coarsest * levels.growth ** (levels.levels - 1) / extent
    finest = min(max(round(cells), levels.coarsest, 4), 2**20)
    entries = min(max(levels.log2_entries, 8), 24)
    return HashGridConfig(levels.levels, features, entries, levels.coarsest, finest)
