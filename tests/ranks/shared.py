"""Common definitions of the tests of ranks and the rank programs."""

import numpy as np

from nerfmac.config import Config, override
from nerfmac.ranks.ranks import LARGE
from tests.scene_factory import CONFIG as SMALL

STEPS = 50

CONFIG: Config = override(
    SMALL,
    train={"rays": 64, "max_rays": 64},
    march={"max_samples": 2**13},
    optimizer={"epsilon": 1e-3},
)
"""Settings where N ranks have as many rays per step as one rank with N times the numbers.

With Adam's default epsilon, a step has its full length even where the terms of a gradient cancel,
so rounding errors grow. With a large epsilon, steps are smooth in the gradient.
"""


def double(config: Config) -> Config:
    """`config` for one rank that is to do what two ranks do."""
    train = config.train
    wider = {"rays": 2 * train.rays, "max_rays": 2 * train.max_rays}
    return override(config, train=wider, march={"max_samples": 2 * config.march.max_samples})


def told(rank: int) -> tuple[dict[str, np.ndarray], float]:
    """Return a large and a small array that a rank sends in a test, and the weight of the rank."""
    random = np.random.default_rng(rank)
    shapes = {"large": (LARGE // 2, 2), "small": (3, 5)}
    arrays = {name: random.normal(size=shape) for name, shape in shapes.items()}
    return {name: each.astype(np.float32) for name, each in arrays.items()}, (0.25, 1.0)[rank]
