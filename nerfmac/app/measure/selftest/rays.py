"""Test cases of random numbers, drawing pixels, marching, packing, compositing, and the occupancy
grid."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import mlx.core as mx
import numpy as np

from nerfmac.app.measure.selftest.comparison import Case, in_variant, with_gradients
from nerfmac.backend import VARIANTS, Arrays, kernels_disabled
from nerfmac.common import constants
from nerfmac.geometry import Bounds, Camera, Cameras, Lens, Rays, Samples, Thinning
from nerfmac.ops.composite import composite_penalized
from nerfmac.ops.draw_pixels import choose_pixels, draw_pixels
from nerfmac.ops.expose import expose
from nerfmac.ops.march import MarchGeometry, Occupied, march, write_samples
from nerfmac.ops.occupancy_update import RefreshRule, draw_points, pack_bits, refresh, splat
from nerfmac.ops.packing import fits_mask, ray_starts, samples_per_ray
from nerfmac.ops.thin import thin
from nerfmac.ops.uniform import uniform
from nerfmac.ops.visibility import termination_distances, visible_cells


def drawn_rays(count: int, extent: float) -> tuple[mx.array, mx.array, mx.array]:
    """Return random rays toward the unit cube: origins, unit directions, and jitter in [0, 1). The
    first three rays are parallel to axes. The second ray is in faces of cells, and the third ray
    misses the cube."""
    keys = mx.random.split(mx.random.key(count), 3)
    origins = 0.5 + extent * (mx.random.uniform(shape=(count, 3), key=keys[0]) - 0.45) * 2.0
    targets = mx.random.uniform(shape=(count, 3), key=keys[1])
    directions = targets - origins
    directions = directions / mx.linalg.norm(directions, axis=1, keepdims=True)
    along = mx.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    start = mx.array([[0.3, 0.7, -2.0], [2.0 * extent, 0.5, 0.5], [5.0 * extent, -3.0, 0.2]])
    origins = mx.concatenate([start, origins[3:]])[:count]
    directions = mx.concatenate([along, directions[3:]])[:count]
    return origins, directions, mx.random.uniform(shape=(count,), key=keys[2])


def uniform_cases() -> Iterator[Case]:
    """Yield cases with even and odd counts. The key is a part of a larger array."""
    for count in (1, 2, 5, 4000):
        key = mx.random.split(mx.random.key(count))[1]
        yield Case("uniform", str(count), partial(_uniform, count, key), 1)


def _uniform(count: int, key: mx.array) -> Arrays:
    return {"values": uniform(count, key)}


def draw_pixels_cases() -> Iterator[Case]:
    """Yield cases with images of several sizes, with and without alpha, with all lens models."""
    lenses = {
        "pinhole": Lens(37, 23, 30.0, 28.0, 17.0, 12.5),
        "photo": Lens(37, 23, 34.0, 34.5, 18.0, 11.0, 0.06, -0.08, 0.0, 0.0, -0.001, 2e-4),
        "strong": Lens(37, 23, 24.0, 23.0, 19.0, 10.8, -0.2, 0.05, -0.01, 0.002, 0.003, -0.004),
        "fisheye": Lens(37, 23, 12.0, 11.5, 19.0, 10.8, 0.03, -0.01, 2e-3, -4e-4, is_fisheye=True),
    }
    for name, lens in lenses.items():
        for views, channels, count in ((1, 4, 300), (5, 3, 1), (5, 3, 700), (5, 4, 700)):
            cameras = Cameras.stack([_view(lens, view) for view in range(views)])
            shape = cameras.pixels, channels
            pixels = mx.random.randint(0, 256, shape, key=mx.random.key(7)).astype(mx.uint8)
            fractions = mx.random.uniform(shape=(3, count), key=mx.random.key(3))
            run = partial(_drawn, pixels, cameras, fractions)
            yield Case("draw_pixels", f"{name}-{views}-{channels}-{count}", run, 64)


def _drawn(pixels: mx.array, cameras: Cameras, fractions: mx.array) -> Arrays:
    index = choose_pixels(cameras, fractions)
    (origin, direction, *_), *others = draw_pixels(pixels, cameras, index)
    names = "origin", "direction", "color", "alpha", "view"
    return {"index": index, **dict(zip(names, (origin, direction, *others), strict=True))}


def _view(lens: Lens, index: int) -> Camera:
    """Return a camera. Number 2 has a smaller image, and number 3 has a different aspect ratio."""
    width, height = {2: (11, 23), 3: (23, 37)}.get(index, (lens.width, lens.height))
    eye = 1.0 + index, 2.0 - index, 0.5 + 0.1 * index
    return Camera.look_at(eye, (0.1, 0.2, 0.0), (0, 0.3, 1), lens.scaled(width, height))


def march_cases() -> Iterator[Case]:
    """Yield cases with occupancy grids from empty to full, with one and with several cascades."""
    geometries = {
        "object": MarchGeometry(Bounds(1.0), 32, 0.05, 3**0.5 / 256, 0.0),
        "scene": MarchGeometry(Bounds(4.0), 32, 0.1, 3**0.5 / 256, 1 / 64),
        "odd": MarchGeometry(Bounds(3.0), 16, 0.0, 3**0.5 / 128, 1 / 256),
    }
    for name, geometry in geometries.items():
        for count, filled, slots in ((2, 0.5, 999), (301, 0.2, 9000), (64, 1, 9000), (9, 0, 64)):
            run = partial(_marched, geometry, count, filled, slots)
            outliers = 0.03 if count > 100 else 0.0
            case = Case("march", f"{name}-{count}-{float(filled)}", run, 512, outliers)
            yield case
            if name == "scene":
                for chosen in VARIANTS["march_count"].all:
                    yield in_variant(case, "march_count", chosen)
        for count in (1, 40, 500):
            # Rounding moves a few positions across a cell face.
            yield Case(
                "march", f"{name}-visible-{count}", partial(_visible, geometry, count), 1, 0.01
            )


def _visible(geometry: MarchGeometry, count: int) -> Arrays:
    origins, directions, jitter = drawn_rays(count, geometry.bounds.extent)
    # Every third ray does not end; other rays may end in front of the cube.
    until = 4.0 * geometry.bounds.extent * mx.random.uniform(shape=(count,), key=mx.random.key(1))
    until = mx.where(mx.arange(count) % 3 == 0, constants.FAR_DISTANCE, until)
    visible = visible_cells(Rays(origins, directions), jitter, until, geometry)
    return {"visible": visible.astype(mx.float32)}


def _marched(geometry: MarchGeometry, count: int, filled: float, slots: int) -> Arrays:
    drawn = mx.random.uniform(shape=(geometry.cells,), key=mx.random.key(3))
    rays = drawn_rays(count, geometry.bounds.extent)
    with kernels_disabled():  # packing has separate cases
        bits = pack_bits((drawn < filled).astype(mx.float32), mx.array([0.5]))
    occupied = Occupied(geometry, bits)
    samples = march(*rays, occupied, slots)
    # Each ray gets five more slots than it has samples.
    more = mx.minimum(samples.ray_start + 5 * mx.arange(count + 1), slots)
    roomy = write_samples(*rays, occupied, slots, more)
    # Rounding may move a sample across a cell face and shift all later samples. Therefore, sums
    # over rays are compared.
    return {
        **_sums_by_ray(samples, count, "position", "distance", "width"),
        **{f"roomy {k}": v for k, v in _sums_by_ray(roomy, count, "distance").items()},
        "empty": (roomy.width == 0).astype(mx.float32),
        "wanted": samples.wanted,
        "fits": samples.fits,
    }


def _sums_by_ray(samples: Samples, rays: int, *names: str) -> Arrays:
    ray = mx.where(samples.width > 0, samples.ray, rays)
    values = {name: getattr(samples, name) for name in names}
    return {
        name: mx.zeros((rays + 1, *array.shape[1:])).at[ray].add(array)[:rays]
        for name, array in values.items()
    }


def packing_cases() -> Iterator[Case]:
    """Yield cases with sample budgets that fit all rays, some rays, and no rays."""
    for rays in (1, 5, 300, 4097):
        keys = mx.random.split(mx.random.key(rays), 2)
        marched = mx.random.randint(0, 40, (rays,), key=keys[0])
        kept = (marched * mx.random.uniform(shape=(rays,), key=keys[1])).astype(mx.int32)
        for fraction in (0.0, 0.4, 2.0):
            yield Case(
                "packing", f"{rays}-{fraction}", partial(_packed, marched, kept, fraction), 1
            )


def _packed(marched: mx.array, kept: mx.array, fraction: float) -> Arrays:
    capacity = int(20 * marched.shape[0] * fraction) + 1
    starts = ray_starts(marched, capacity)
    mean = samples_per_ray(marched, kept, capacity, capacity // 2 + 1)
    return {"starts": starts, "samples_per_ray": mean.reshape(1)}


def composite_cases() -> Iterator[Case]:
    """Yield cases with one sample, all samples, or no sample per ray, with and without thinning."""
    for name, density, samples in _packed_rays():
        keys = mx.random.split(mx.random.key(1), 2)
        color = mx.random.uniform(shape=samples.position.shape, key=keys[0])
        run = partial(_composited, density, color, samples)
        yield Case("composite", name, run, 256)
        behind = mx.random.uniform(shape=(2, samples.wanted.shape[0], 3), key=keys[1])
        # Without the offset, the scaled gradient of the first sample would be zero.
        thinned = _thinned_at_random(samples._replace(distance=0.5 + samples.distance))
        run = partial(_composited, density, color, thinned, behind[0], behind[1], 1.0)
        yield Case("composite", f"{name}-thinned", run, 256)


def _composited(
    density: mx.array,
    color: mx.array,
    samples: Samples,
    expected: mx.array | None = None,
    background: mx.array | None = None,
    full_gradient_distance: float = 0.0,
) -> Arrays:
    penalty = mx.cos(samples.distance)

    def run(density: mx.array, color: mx.array) -> list[mx.array]:
        seen, ray_penalty = composite_penalized(
            *(density, color, samples, penalty),
            *(expected, background, full_gradient_distance),
        )
        return [*seen[:3], ray_penalty]

    return with_gradients(run, density=density, color=color)


def expose_cases() -> Iterator[Case]:
    """Yield cases with dark, clipped, and transparent colors, and with views without rays."""
    for rays, views in ((1, 1), (5, 2), (300, 41), (10_000, 2)):
        keys = mx.random.split(mx.random.key(rays), 5)
        opacity = mx.maximum(mx.random.uniform(-0.2, 1.0, (rays,), key=keys[0]), 0.0)
        color = opacity[:, None] * mx.square(mx.random.uniform(shape=(rays, 3), key=keys[1]))
        logarithms = mx.random.normal((views, 3), key=keys[2])
        view = mx.random.randint(0, views, (rays,), key=keys[3])
        background = mx.random.uniform(shape=(rays, 3), key=keys[4])

        exposed = partial(expose, view=view, background=background)
        case = partial(with_gradients, exposed, color=color, opacity=opacity, logarithms=logarithms)
        yield Case("expose", f"{rays}-{views}", case, 32)


def _thinned_at_random(samples: Samples) -> Samples:
    """Return `samples` with a random `Thinning`."""
    keys = mx.random.split(mx.random.key(2), 2)
    shape, (rays,) = samples.distance.shape, samples.wanted.shape
    halvings = mx.random.randint(0, constants.THINNING_UNITS.bit_length(), shape, key=keys[0])
    ray_omitted = mx.random.uniform(0.0, 2.0, (rays,), key=keys[1])
    # The omitted optical depth grows along a ray, up to less than the total.
    omitted = ray_omitted[samples.ray] * samples.distance / (1.0 + samples.distance)
    thinning = Thinning(mx.power(2.0, halvings), omitted, ray_omitted)
    return samples._replace(thinning=thinning)


def thin_cases() -> Iterator[Case]:
    """Yield cases that keep all, some, or few visible samples, with all or half of the slots."""
    for name, density, samples in _packed_rays():
        rays, slots = samples.wanted.shape[0], density.shape[0]
        offsets = mx.random.uniform(shape=(rays,), key=mx.random.key(rays))
        for below in (0.0, 0.01, 0.3):
            clear = _clear_of_halvings(samples, density, below)
            for room in (slots, slots // 2):
                run = partial(_thinned, samples, clear, offsets, room, below)
                yield Case("thin", f"{name}-{below}-{room}", run, 16)


def _thinned(samples: Samples, density: mx.array, offsets: mx.array, *room: Any) -> Arrays:
    kept = thin(samples, density, offsets, *room)
    arrays = kept._asdict()
    thinning: Thinning = arrays.pop("thinning")
    fits = fits_mask(kept.ray_start, kept.wanted)
    return {**arrays, **thinning._asdict(), "fits": fits}


def _clear_of_halvings(samples: Samples, density: mx.array, below: float) -> mx.array:
    """Change `density` where a rounding error could change the probability of a sample."""
    values, width = np.array(density, np.float64), np.array(samples.width, np.float64)
    limits = [below * 0.5**n for n in range(1, constants.THINNING_UNITS.bit_length())]
    for first, end in pairwise(np.array(samples.ray_start).tolist()):
        optical = 0.0
        for i in range(first, end):
            near = True
            while near:
                weight = np.exp(-optical) * -np.expm1(-values[i] * width[i])
                near = any(abs(weight - limit) < 1e-3 * limit for limit in limits)
                values[i] *= 1.01 if near else 1.0
            optical += values[i] * width[i]
    return mx.array(values, mx.float32)


def _packed_rays() -> Iterator[tuple[str, mx.array, Samples]]:
    """Yield names, densities (slots,), and samples of various rays; 13 slots are unused."""
    lengths = {
        "one": [5],
        "empty": [0, 0, 0],
        "mixed": [0, 1, 64, 0, 33, 7, 200, 0],
        "single": [600],
        "many": [i * 7919 % 61 for i in range(517)],
    }
    for name, counts in lengths.items():
        # The cases are transparent rays, early termination, and transparent rays with opaque walls.
        for label, density_scale, walls in (("3", 3.0, 0), ("300", 300.0, 0), ("walls", 3.0, 0.1)):
            slots = sum(counts) + 13
            keys = mx.random.split(mx.random.key(slots), 4)
            density = density_scale * mx.random.uniform(shape=(slots,), key=keys[0])
            is_wall = mx.random.uniform(shape=(slots,), key=keys[3]) < walls
            density = mx.where(is_wall, 3e6, density)
            position = mx.random.uniform(shape=(slots, 3), key=keys[1])
            width = 0.02 * mx.random.uniform(0.5, 1.0, (slots,), key=keys[2])
            starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
            ray = np.pad(np.repeat(np.arange(len(counts)), counts), (0, 13)).astype(np.int32)
            distance = mx.array(0.02 * (np.arange(slots) - starts[ray]), mx.float32)
            # If there are several rays, the sample budget is too small for all samples of the last
            # ray.
            wanted = np.array(counts, np.int32)
            wanted[-1] += len(counts) > 1 and counts[-1] == 0
            rays = mx.array(ray), mx.array(starts), mx.array(wanted)
            yield f"{name}-{label}", density, Samples(position, distance, width, *rays)


def visibility_cases() -> Iterator[Case]:
    """Yield cases with transparent and opaque rays, and rays without slots."""
    for name, density, samples in _packed_rays():
        yield Case("visibility", name, partial(_ended, density, samples), 2)


def _ended(density: mx.array, samples: Samples) -> Arrays:
    return {"distance": termination_distances(density, samples)}


def occupancy_update_cases() -> Iterator[Case]:
    """Yield cases of points in cells, and of density estimates that share cells."""

    def case(name: str, operation: Callable[..., Any], *inputs: Any, terms: int = 1) -> Case:
        def run() -> Arrays:
            result: Any = operation(*inputs)
            return {"result": result} if isinstance(result, mx.array) else result._asdict()

        return Case("occupancy_update", name, run, terms)

    for count in (1, 5, 4000):
        cells = mx.random.randint(0, 1000, (count,), key=mx.random.key(count))
        estimates = mx.random.uniform(shape=(count,), key=mx.random.key(5))
        yield case(f"splat-{count}", splat, cells, estimates, 1024)
    for count in (32, 96, 8192, 8224):
        values = mx.random.uniform(-0.1, 1.0, (count,), key=mx.random.key(count))
        yield case(f"pack-{count}", pack_bits, values, mx.array([0.6]))
    # Grids with up to four cascades, from full to empty.
    for resolution, cascades, empty in ((16, 1, 0.0), (16, 3, 0.9), (64, 2, 0.97), (32, 4, 1.0)):
        keys = mx.random.split(mx.random.key(resolution + cascades), 3)
        words = cascades * resolution**3 // constants.BRICK_CELLS
        bits = mx.random.split(keys[0], words // 2).reshape(-1)
        bits = mx.where(mx.random.uniform(shape=(words,), key=keys[1]) < empty, 0, bits)
        draws = mx.random.split(keys[2], 3000)
        for evenly in (0, 1300, 3000):
            name = f"points-{resolution}-{cascades}-{evenly}"
            yield case(name, draw_points, bits, draws, evenly, resolution, terms=8)
    for warmup, updates in ((True, 0), (False, 1), (False, 30), (False, 300)):
        values, peaks, seen, age = mx.random.uniform(shape=(4, 4001), key=mx.random.key(updates))
        since = (40.0 * age).astype(mx.int32)
        since = mx.where(age > 0.9, constants.NEVER_OCCUPIED, since)
        since = mx.where(age < 0.1, constants.EMPTY_IN_WARMUP, since)
        arrays = values, since, mx.where(peaks < 0.5, 0.0, 200.0 * peaks), seen < 0.3
        rest = mx.array([updates], mx.int32), RefreshRule(0.95, 0.01, 40, warmup)
        yield case(f"refresh-{updates}", refresh, *arrays, *rest, terms=2)
