"""Test cases of the losses."""

from collections.abc import Iterator
from functools import partial

import mlx.core as mx
import numpy as np

from nerfmac.app.measure.selftest.comparison import Case, with_gradients
from nerfmac.backend import Arrays
from nerfmac.common import FAR_DISTANCE, Float32Array
from nerfmac.geometry import Camera, Cameras, DepthMaps, Lens, Samples
from nerfmac.ops.huber import huber
from nerfmac.ops.masked_mean import masked_mean
from nerfmac.ops.penalty import PenaltyWeights, penalties
from nerfmac.ops.sensor_depth import sensor_depth


def penalty_cases() -> Iterator[Case]:
    """Yield cases with one loss and with all losses. In the case `sparse`, there are more rays than
    slots."""
    chosen = {
        "none": PenaltyWeights(),
        "occlusion": PenaltyWeights(occlusion=0.1),
        "depth": PenaltyWeights(depth=0.2),
        "ground": PenaltyWeights(ground=0.3),
        "sensor": PenaltyWeights(sensor=0.4),
        "all": PenaltyWeights(0.1, 0.2, 0.3, 0.4),
    }
    for name, weights in chosen.items():
        for layout, rays, slots in (("few", 5, 30), ("many", 301, 2000), ("sparse", 300, 40)):
            run = partial(_penalized, weights, rays, slots)
            yield Case("penalty", f"{layout}-{name}", run, 8)


def _penalized(weights: PenaltyWeights, rays: int, slots: int) -> Arrays:
    keys = mx.random.split(mx.random.key(rays), 5)
    distance = mx.random.uniform(0.5, 3.0, (slots,), key=keys[0])
    ray = mx.random.randint(0, rays, (slots,), key=keys[1])
    # Penalties depend only on the distance and the ray of a sample.
    samples = Samples(mx.zeros((slots, 3)), distance, distance, ray, ray, mx.zeros(rays, mx.int32))
    ground = mx.random.uniform(0.5, 3.0, (rays,), key=keys[2])
    ground = mx.where(mx.arange(rays) % 3 == 0, FAR_DISTANCE, ground)
    tracks = mx.random.uniform(0.5, 1.5, (rays // 2, 3), key=keys[3])
    sensor = mx.random.uniform(0.0, 1.0, (rays, 2), key=keys[4]) + mx.array([0.5, 0.0])
    return penalties(samples, mx.array(0.2), weights, tracks, ground, sensor)._asdict()


def sensor_depth_cases() -> Iterator[Case]:
    """Yield cases with depth maps of different sizes, some of whose pixels are unknown."""
    for rays in (5, 3000):
        yield Case("sensor_depth", f"{rays}-rays", partial(_looked_up, rays), 8)


def _looked_up(rays: int) -> Arrays:
    random = np.random.default_rng(rays)
    maps: list[tuple[Float32Array, Float32Array] | None] = [None]
    for size in ((5, 7), (48, 64), (1, 9)):
        confidence = random.choice(np.array([0.0, 0.5, 1.0, 1.0], np.float32), size)
        distance = random.uniform(0.5, 4.0, size).astype(np.float32) * (confidence > 0)
        maps.append((distance, confidence))
    keys = mx.random.split(mx.random.key(rays), 1)
    lens = Lens(96, 64, 80.0, 80.0, 48.0, 32.0)
    camera = Camera.look_at((2, 1, 3), (0, 0, 0), (0, 0, 1), lens)
    cameras = Cameras.stack([camera] * len(maps))
    index = mx.random.randint(0, cameras.pixels, (rays,), key=keys[0])
    view = index // (lens.width * lens.height)
    return {"known": sensor_depth(DepthMaps.stack(maps), cameras, index, view)}


def huber_cases() -> Iterator[Case]:
    """Yield cases with errors below and above the limit of the quadratic part."""
    for rays in (1, 5, 300):
        predicted, target = mx.random.uniform(shape=(2, rays, 3), key=mx.random.key(rays))
        loss = partial(huber, target=target, delta=0.3)
        yield Case("huber", str(rays), partial(with_gradients, loss, predicted=predicted), 8)


def masked_mean_cases() -> Iterator[Case]:
    """Yield cases in which all, some, and none of the rays have mask 1."""
    for rays in (1, 5, 300, 5000):
        for kept in (0.0, 0.7, 1.0):
            drawn, values = mx.random.uniform(shape=(2, rays), key=mx.random.key(rays))
            mask, scale = (drawn < kept).astype(mx.float32), mx.array(1024.0)
            mean = partial(masked_mean, mask=mask, scale=scale)
            case = partial(with_gradients, mean, values=values)
            yield Case("masked_mean", f"{rays}-{kept:g}", case, 32)
