"""The least bytes and operations of a whole training step, kernel by kernel; see `bench.work`."""

from __future__ import annotations

from dataclasses import replace

from nerfmac.measure.bench.work import (
    FLOAT,
    Sizes,
    Work,
    adam,
    composite_forward,
    composite_gradient,
    composite_reached,
    draw_pixels,
    hash_encode_forward,
    hash_encode_table_gradient,
    march_count,
    march_lit,
    march_write,
    networks_density,
    networks_forward,
    networks_gradient,
    networks_store,
    occupancy_choose,
    occupancy_pack,
    occupancy_splat,
    packing_starts,
    spherical_harmonics_forward,
    streamed,
)
from nerfmac.sampling.marching import ROOM


def _sampled(sizes: Sizes) -> dict[str, Work]:
    """What finds a step's samples, writes and encodes them."""
    tried = sizes.candidates
    kept = {
        "march_write": march_write(sizes, sizes.slots),
        "hash_encode_forward": hash_encode_forward(sizes, sizes.slots),
    }
    starts = packing_starts(sizes)
    if not tried:
        return {"march_count": march_count(sizes, sizes.slots), "packing_starts": starts, **kept}
    return {
        "march_count": march_count(sizes, tried),
        "packing_starts": starts + starts,
        "march_write": march_write(sizes, tried) + kept["march_write"],
        "hash_encode_forward": hash_encode_forward(sizes, tried) + kept["hash_encode_forward"],
        "networks_density": networks_density(sizes, tried),
        "composite_reached": composite_reached(sizes, tried),
    }


def step_work(sizes: Sizes) -> dict[str, Work]:
    """A step's work by kernel, all launches of one together, without the occupancy update."""
    stored = networks_store(sizes)
    return {
        "draw_pixels": draw_pixels(sizes),
        **_sampled(sizes),
        "spherical_harmonics_forward": spherical_harmonics_forward(sizes),
        "networks_store": stored + stored + (stored if sizes.candidates else Work()),
        "networks_forward": networks_forward(sizes),
        "composite_forward": composite_forward(sizes),
        "composite_gradient": composite_gradient(sizes),
        "networks_gradient": networks_gradient(sizes),
        **_table_gradient(sizes),
        "adam": adam(sizes),
    }


def _table_gradient(sizes: Sizes) -> dict[str, Work]:
    """The gradient of the encoding's table; from fixed point it becomes floats in another pass."""
    summed, table = hash_encode_table_gradient(sizes, sizes.slots), sizes.entries * sizes.features
    if sizes.gradient != "fixed":
        return {"hash_encode_table_gradient": summed}
    floats = streamed(2 * FLOAT * table, table)
    return {"hash_encode_table_units": summed, "hash_encode_table_floats": floats}


def between_work(sizes: Sizes) -> Work:
    """A step's work outside kernels, the largest of it: rounding the table, adding partial sums.

    And for fixed point the sizes of the features' gradients, written and added up.
    """
    table = sizes.entries * sizes.features
    rounded = table * (FLOAT + sizes.half) if sizes.half < FLOAT else 0
    partial = sizes.groups * sizes.weights
    moved, sums = rounded + FLOAT * (partial + sizes.weights), partial
    if sizes.gradient == "fixed":
        features = sizes.slots * sizes.networks.features
        moved, sums = moved + features * (sizes.half + 2 * FLOAT), sums + 2 * features
    return streamed(moved, sums)


def update_work(sizes: Sizes) -> dict[str, Work]:
    """An occupancy update's work by kernel, after the warm-up: cells visited and rays followed."""
    tried, stored = ROOM * sizes.followed, networks_store(sizes)
    rays = replace(sizes, rays=sizes.followed, slots=tried)
    return {
        "draw_pixels": draw_pixels(rays),
        "march_count": march_count(rays, tried),
        "packing_starts": packing_starts(rays),
        "march_write": march_write(rays, tried),
        "march_lit": march_lit(rays),
        "hash_encode_forward": hash_encode_forward(sizes, sizes.visited)
        + hash_encode_forward(sizes, tried),
        "networks_store": stored + stored,
        "networks_density": networks_density(sizes, sizes.visited) + networks_density(sizes, tried),
        "composite_reached": composite_reached(rays, tried),
        "composite_forward": composite_forward(rays),
        "occupancy_choose": occupancy_choose(sizes),
        "occupancy_splat": occupancy_splat(sizes),
        "occupancy_pack": occupancy_pack(sizes),
    }
