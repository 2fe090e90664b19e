"""What the tests of ranks and the ranks themselves have to know both."""

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
"""So many rays in every step that N ranks have as many as one with N times the numbers.

With Adam's own epsilon a step has its full length even where a gradient's terms cancel, so that
what was rounding grows; with a large one steps are smooth in the gradient.
"""


def double(config: Config) -> Config:
    """`config` for one rank that is to do what two ranks do."""
    train = config.train
    wider = {"rays": 2 * train.rays, "max_rays": 2 * train.max_rays}
    return override(config, train=wider, march={"max_samples": 2 * config.march.max_samples})


def told(rank: int) -> tuple[dict[str, np.ndarray], float]:
    """What a rank sends in a test: a large array, a small one, and its weight."""
    random = np.random.default_rng(rank)
    shapes = {"large": (LARGE // 2, 2), "small": (3, 5)}
    arrays = {name: random.normal(size=shape) for name, shape in shapes.items()}
    return {name: each.astype(np.float32) for name, each in arrays.items()}, (0.25, 1.0)[rank]
