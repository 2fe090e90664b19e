"""Benchmark of every operation, with its kernel and with its reference, and of rendering an image.

The arrays (`StepInputs`) are similar to those in a training step and have the same sizes.
Neighboring samples share cells of the encoding, because rays are marched through an occupied shell.
The arrays are created without indexing, because MLX would compile a kernel for indexing on CUDA.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.app.measure.launches import trained
from nerfmac.app.measure.timing import Timing, measure, measure_ceilings
from nerfmac.app.run import Run, Training
from nerfmac.app.scenes import Scene
from nerfmac.backend import current_device, kernels_disabled, working_dtype
from nerfmac.backend.fallback import why_reference
from nerfmac.backend.machine import machine
from nerfmac.common import InputError
from nerfmac.common.constants import DIRECTION_FEATURES
from nerfmac.config import Config, MarchConfig
from nerfmac.fields.encodings import HashGrid
from nerfmac.geometry import Bounds, Camera, Cameras, DepthMaps, Lens, Rays
from nerfmac.ops.adam import AdamStep, adam_step, most_first, moving_average
from nerfmac.ops.composite import composite
from nerfmac.ops.draw_pixels import choose_pixels, draw_pixels
from nerfmac.ops.expose import expose
from nerfmac.ops.hash_encode import hash_encode
from nerfmac.ops.huber import huber
from nerfmac.ops.loss_scale import LossScale, next_loss_scale
from nerfmac.ops.march import MarchGeometry, Occupied, cell_of, march
from nerfmac.ops.masked_mean import masked_mean
from nerfmac.ops.networks import NetworksShape, networks, networks_density
from nerfmac.ops.occupancy_update import pack_bits, splat
from nerfmac.ops.packing import ray_starts
from nerfmac.ops.penalty import PenaltyWeights, penalties
from nerfmac.ops.sensor_depth import sensor_depth
from nerfmac.ops.spherical_harmonics import spherical_harmonics
from nerfmac.ops.thin import thin
from nerfmac.ops.trace import TraceGeometry, trace
from nerfmac.ops.uniform import uniform
from nerfmac.ops.visibility import termination_distances
from nerfmac.sampling.occupancy import march_geometry
from nerfmac.training.resolve import settled

STEPS = 1024  # Number of training steps before an image is timed.
IMAGE = {"cpu": 200}  # Side of the image in pixels, by device; elsewhere 800.


def benchmark(
    scene: Scene, config: Config, *, seconds: float = 1.0, on_line: Callable[[str], None] = print
) -> dict[str, Any]:
    """Time every operation, and an image after training on `scene`, for about `seconds` each.
    Returns the measurements as JSON values, with times in milliseconds."""
    if why := why_reference():
        raise InputError(f"there are no kernels to time: {why}")
    scene.views("train")  # raises an error for an invalid image before the measurement
    about = machine()
    on_line(f"{about['device_name']}, mlx {about['mlx_version']}, preset {config.preset}")
    most = measure_ceilings(seconds)
    heading = f"{'operation':34}{'kernel':>10}{'(quartiles)':>17}{'plain MLX':>10}{'speed-up':>9}"
    on_line(f"{most}\n\n{heading}")
    operations = {}
    for times in measure_operations(config, seconds):
        on_line(str(times))
        operations[times.name] = times.to_json()
    on_line(f"\ntraining on {scene.name} for {STEPS} steps, then rendering an image")
    side, timing = time_image(trained(Training(Run.begin(scene, config)), STEPS).run, seconds)
    rays = side**2 / timing.median * 1e3
    on_line(f"an image of {side}x{side}: {timing}, {rays:.3g} rays/s")
    return {
        **about,
        "preset": config.preset,
        "scene": scene.name,
        "ceilings": most._asdict(),
        "operations": operations,
        "frame": {"side": side, "ms": timing._asdict(), "rays_per_second": rays},
    }


def time_image(run: Run, seconds: float) -> tuple[int, Timing]:
    """Return the side length of a square image in pixels, and its rendering time. The camera has
    the pose and the horizontal field of view of the first training camera."""
    side = IMAGE.get(current_device(), 800)
    camera = run.scene.cameras[0]
    angle = 2.0 * math.atan(0.5 * camera.lens.width / camera.lens.fl_x)
    view = Camera(Lens.from_fov(angle, side, side), camera.pose)
    renderer = run.renderer()
    return side, measure(lambda: renderer.pixels(view, (1.0, 1.0, 1.0)), seconds=seconds)


Computation = tuple[str, Callable[[], Any]]  # Name, and function of unevaluated results.


class OperationTimes(NamedTuple):
    """Times of an operation with its kernel and with its reference, in milliseconds."""

    name: str
    kernel: Timing
    reference: Timing

    @property
    def ratio(self) -> float:
        """Speedup of the kernel: the median reference time divided by the median kernel time."""
        return self.reference.median / self.kernel.median

    def __str__(self) -> str:
        median, low, high, _ = self.kernel
        times = (
            f"{median:7.2f} ms {f'({low:.2f} to {high:.2f})':>16}{self.reference.median:7.1f} ms"
        )
        return f"{self.name:34}{times}{self.ratio:8.1f}x"

    def to_json(self) -> dict[str, Any]:
        """Return the times as JSON values."""
        return {
            "kernel_ms": self.kernel._asdict(),
            "reference_ms": self.reference._asdict(),
            "ratio": self.ratio,
        }


def measure_operations(config: Config, seconds: float) -> Iterator[OperationTimes]:
    """Measure the time of each computation with kernels and with reference implementations."""
    for name, compute in computations(config):
        kernel = measure(compute, seconds=seconds)
        with kernels_disabled():
            reference = measure(compute, seconds=seconds)
        yield OperationTimes(name, kernel, reference)


def computations(config: Config) -> Iterator[Computation]:
    """Yield all computations, with the sizes of a training step with `config` in the unit cube."""
    inputs = StepInputs(config)
    yield from _sample_computations(inputs)
    yield from _ray_computations(inputs)
    shape, keys = inputs.table.shape, mx.random.split(mx.random.key(14))
    parameters, gradient = (mx.random.uniform(shape=shape, key=key) for key in keys)
    most = most_first(0.9, 0.99)
    step = mx.array(AdamStep(0.9, 0.99, size=1e-3, epsilon=1e-15, l2=1e-6, most=most))
    unscale = mx.array([1e-3])
    yield "loss_scale", lambda: next_loss_scale(LossScale.init(1024.0), mx.array(0.0))
    _, moments = adam_step(parameters, mx.zeros(shape, mx.uint32), gradient, unscale, step)
    mx.eval(parameters, moments, gradient)
    yield "adam", lambda: adam_step(parameters, moments, gradient, unscale, step)
    averaged = parameters, gradient, mx.array(0.05), mx.array(0)
    yield "moving_average", lambda: moving_average(*averaged)


def _with_backward(
    name: str, function: Callable[..., Any], *arguments: mx.array, result: mx.Dtype = mx.float32
) -> Iterator[Computation]:
    """Yield two computations: `function`, and `function` with the gradients of all arguments.
    float16 arrays are converted to `working_dtype()` before the timing."""
    inputs = _in_working_dtype(arguments)
    results = function(*inputs())
    results = results if isinstance(results, tuple) else (results,)
    key = mx.random.key(9)
    cotangents = _in_working_dtype(
        mx.random.normal(array.shape, key=key).astype(result) for array in results
    )
    yield f"{name} forward", lambda: function(*inputs())
    yield f"{name} forward + backward", lambda: mx.vjp(function, inputs(), cotangents())


def _in_working_dtype(arrays: Iterable[mx.array]) -> Callable[[], list[mx.array]]:
    """Return a function that returns `arrays`, with float16 converted to `working_dtype()`."""
    arrays = list(arrays)

    @cache
    def converted(dtype: mx.Dtype) -> list[mx.array]:
        inputs = [array.astype(dtype) if array.dtype == mx.float16 else array for array in arrays]
        mx.eval(inputs)
        return inputs

    return lambda: converted(working_dtype())


def _sample_computations(inputs: StepInputs) -> Iterator[Computation]:
    samples, shape, half = inputs.samples, inputs.shape, inputs.features.astype(mx.float16)
    # Training does not use the gradient of positions.
    encode = lambda table: hash_encode(inputs.positions, table, inputs.grid.levels)  # noqa: E731
    yield from _with_backward("hash_encode", encode, inputs.table, result=mx.float16)
    yield from _with_backward("spherical_harmonics", spherical_harmonics, inputs.marched[1])

    def both_networks(features: mx.array, density: mx.array, color: mx.array) -> Any:
        return networks(features, inputs.basis, samples.ray, samples.used, density, color, shape)

    yield from _with_backward("networks", both_networks, half, *inputs.weights)
    arrays = _in_working_dtype([half, *inputs.weights])
    density_only: Callable[..., Any] = partial(networks_density, shape=shape)
    yield "networks density", lambda: density_only(*arrays())

    def flat(density: mx.array, color: mx.array) -> mx.array:
        pixels = composite(density, color, samples)
        return mx.concatenate([pixels.color.reshape(-1), pixels.opacity, pixels.weighted_depth])

    density = 20.0 * mx.random.uniform(shape=(inputs.slots,), key=mx.random.key(11))
    color = mx.random.uniform(shape=(inputs.slots, 3), key=mx.random.key(12))
    yield from _with_backward("composite", flat, density, color)
    colors = mx.random.uniform(shape=(2, inputs.rays, 3), key=mx.random.key(13))
    view = mx.arange(inputs.rays) % 100
    exposed = partial(expose, view=view, background=colors[1])
    opacity, logarithms = mx.ones(inputs.rays), mx.zeros((100, 3))
    yield from _with_backward("expose", exposed, colors[0], opacity, logarithms)
    loss = partial(huber, target=colors[1], delta=0.1)
    yield from _with_backward("huber", loss, colors[0])
    losses, mask, scale = loss(colors[0]), mx.ones(inputs.rays), mx.array(1024.0)

    def mean(values: mx.array) -> mx.array:
        return masked_mean(values, mask, scale).mean

    yield from _with_backward("masked_mean", mean, losses)
    tracks, ground = 0.5 + colors[0, : max(inputs.rays // 16, 1)], 0.5 + losses
    mx.eval(tracks, ground)
    weights, progress = PenaltyWeights(occlusion=0.01, depth=0.02, ground=0.05), mx.array(0.3)
    yield "penalty", lambda: penalties(samples, progress, weights, tracks, ground)


def _ray_computations(inputs: StepInputs) -> Iterator[Computation]:
    geometry, rays, slots = inputs.geometry, inputs.rays, inputs.slots
    lens = Lens(400, 400, 550.0, 550.0, 200.0, 200.0)
    cameras = Cameras.stack([Camera.look_at((2, 1, 3), (0, 0, 0), (0, 0, 1), lens)] * 16)
    pixels = mx.random.randint(0, 256, (16 * 400 * 400, 4), key=mx.random.key(9)).astype(mx.uint8)
    fractions = mx.random.uniform(shape=(3, rays), key=mx.random.key(10))
    key = mx.random.key(15)
    yield "uniform", lambda: uniform(8 * rays, key)
    yield "draw_pixels", lambda: draw_pixels(pixels, cameras, choose_pixels(cameras, fractions))
    index = choose_pixels(cameras, fractions)
    view = index // (lens.width * lens.height)
    maps = DepthMaps.stack([(np.ones((192, 256), np.float32),) * 2] * len(cameras))
    mx.eval(index, view, maps.distances, maps.confidences, maps.places)
    yield "sensor_depth", lambda: sensor_depth(maps, cameras, index, view)
    yield "march", lambda: march(*inputs.marched, slots)
    counts = inputs.samples.ray_start[1:] - inputs.samples.ray_start[:-1]
    yield "packing", lambda: ray_starts(counts, slots // 2)
    thinned = inputs.samples, mx.full((slots,), 20.0), mx.full((rays,), 0.5)
    below = MarchConfig().thin_below
    yield "thin", lambda: thin(*thinned, slots // 2, below)._replace(thinning=None)
    values = mx.random.uniform(shape=(geometry.cells,), key=mx.random.key(8))
    cells = mx.random.randint(0, geometry.cells, (slots,), key=mx.random.key(13))
    threshold = mx.array([0.95])
    mx.eval(pixels, fractions, counts, values, cells)
    yield "visibility", lambda: termination_distances(thinned[1], inputs.samples)
    yield (
        "occupancy_update",
        lambda: (splat(cells, values[:slots], geometry.cells), pack_bits(values, threshold)),
    )
    sizes = TraceGeometry(geometry, inputs.grid.levels, inputs.shape)
    arrays = _in_working_dtype([inputs.table.astype(mx.float16), *inputs.weights])
    origins, directions, _, occupied = inputs.marched
    through = Rays(origins, directions)
    traced: Callable[..., Any] = partial(trace, through, occupied.bits, sizes)
    yield "trace", lambda: traced(*arrays())


SAMPLES_PER_RAY = 8  # Visible samples per ray, about as halfway through training.
RADIUS, THICKNESS = 0.3, 0.03  # Radius and thickness of the shell, in scene units.


class StepInputs:
    """Evaluated arrays similar to those in a training step, in the unit cube."""

    def __init__(self, config: Config) -> None:
        bounds = Bounds(1.0)
        config = settled(config, bounds)
        self.slots, widths = config.march.max_samples, config.networks
        self.rays = rays = max(self.slots // SAMPLES_PER_RAY, 1)
        self.geometry = march_geometry(config.march, config.occupancy, bounds)
        self.grid = HashGrid(config.grid, bounds)
        layers = widths.density_layers, widths.color_layers
        self.shape = NetworksShape(self.grid.outputs, widths.width, *layers, widths.density_bias)
        around, inside, along = mx.random.split(mx.random.key(21), 3)
        origins = _directions(rays, around) * 1.6 + 0.5
        targets = 0.5 + 0.9 * RADIUS * mx.random.uniform(-1, 1, (rays, 3), key=inside)
        directions = targets - origins
        directions = directions / mx.linalg.norm(directions, axis=1, keepdims=True)
        jitter = mx.random.uniform(shape=(rays,), key=along)
        self.marched = origins, directions, jitter, _shell(self.geometry)
        self.samples = march(*self.marched, self.slots)
        low, high = (mx.array(corner, mx.float32) for corner in bounds.corners)
        self.positions = mx.clip(self.samples.position, low, high)
        self.table = self.grid.init(mx.random.key(23))["table"]
        of_features, of_basis, *others = mx.random.split(mx.random.key(25), 4)
        self.features = mx.random.normal((self.slots, self.shape.features), key=of_features)
        self.basis = mx.random.normal((rays, DIRECTION_FEATURES), key=of_basis)
        self.weights = [
            widths.width**-0.5 * mx.random.normal((network.weights,), key=key)
            for network, key in zip((self.shape.density, self.shape.color), others, strict=True)
        ]
        samples = self.samples[:-1]  # without the thinning
        mx.eval(self.marched[:3], self.marched[3].bits, samples, self.positions, self.table)
        mx.eval(self.features, self.basis, self.weights)


def _directions(count: int, key: mx.array) -> mx.array:
    vectors = mx.random.normal((count, 3), key=key)
    return vectors / mx.linalg.norm(vectors, axis=1, keepdims=True)


def _shell(geometry: MarchGeometry) -> Occupied:
    """Return an occupancy grid with only the shell occupied."""
    away, around = mx.random.split(mx.random.key(22))
    points = 4 * geometry.resolution**2
    radius = RADIUS + THICKNESS * mx.random.uniform(-0.5, 0.5, (points, 1), key=away)
    cells = cell_of(0.5 + radius * _directions(points, around), geometry)
    bits = pack_bits(splat(cells, mx.ones(points), geometry.cells), mx.array([0.5]))
    return Occupied(geometry, bits)
