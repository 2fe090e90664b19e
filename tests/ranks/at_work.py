"""Program of each of two ranks: `python at_work.py SCENE FOLDER` writes FOLDER/RANK.npz."""

import sys
from itertools import count
from pathlib import Path

import mlx.core as mx
import numpy as np

from nerfmac.app.scenes import Scene, load_scene
from nerfmac.backend import choose_device
from nerfmac.common.checks import InputError
from nerfmac.config import Config
from nerfmac.ranks import Ranks, current_ranks, join
from nerfmac.training import clock
from nerfmac.training.goal import Goal
from nerfmac.training.state import TrainState
from tests.ranks.shared import CONFIG, STEPS, told
from tests.scene_factory import initial, trainer_of

SECONDS, TICK = 1.0, 0.02


def trained(scene: Scene, config: Config, goal: Goal) -> TrainState:
    """Train from a first state that only the first rank has right."""
    trainer = trainer_of(config, scene.bounds, scene.views("train"))
    state = initial(trainer)
    if not current_ranks().is_first:
        spoilt = {name: values + 1 for name, values in state.arrays().items()}
        state = TrainState.of(spoilt, state.numbers())
    *_, last = trainer.train(state, goal)
    assert last.state.step == goal.steps or goal.seconds
    return last.state


def saved(label: str, state: TrainState) -> dict[str, np.ndarray]:
    """The arrays of `state`, named for a file."""
    return {f"{label}.{name}": np.array(values) for name, values in state.arrays().items()}


def by_clocks_that_differ(scene: Scene, ranks: Ranks, config: Config) -> TrainState:
    """Train for some seconds; each look at the clock finds it later, on the second rank thrice."""
    real, ticks = clock.time.perf_counter, count()
    clock.time.perf_counter = lambda: next(ticks) * TICK * (1 + 2 * ranks.rank)
    try:
        return trained(scene, config, Goal(seconds=SECONDS))
    finally:
        clock.time.perf_counter = real


def differences(ranks: Ranks) -> list[bool]:
    """Whether ranks that are alike, or differ, are told so."""
    own = mx.array([1.0, 2.0, 3.0])
    other = own if ranks.is_first else mx.array([1.0, 3.0, 2.0])
    ranks.check_alike("their names", "same")
    try:
        ranks.check_alike("their names", f"rank {ranks.rank}")
    except InputError as error:
        refused = (
            str(error) == "the ranks differ in their names; they must be the same on all ranks"
        )
    return [ranks.alike({"own": own}), ranks.alike({"own": own, "other": other}), refused]


def main(scene_path: Path, folder: Path) -> None:
    choose_device("cpu")
    ranks, scene = join(), load_scene(scene_path)
    values, weight = told(ranks.rank)
    arrays = {name: mx.array(array) for name, array in values.items()}
    means = {
        f"mean.{name}": np.array(mean)
        for name, mean in ranks.weighted_mean(arrays, mx.array(weight)).items()
    }
    first = {f"first.{name}": np.array(each) for name, each in ranks.of_first(arrays).items()}
    found = {
        **means,
        **first,
        "rank": np.array([ranks.rank, ranks.size]),
        "number": np.array(ranks.number_of_first(86400.125 + ranks.rank)),
        "differences": np.array(differences(ranks)),
        **saved("one", trained(scene, CONFIG, Goal(steps=1))),
        **saved("now", trained(scene, CONFIG, Goal(steps=STEPS))),
        "steps_of_seconds": np.array(by_clocks_that_differ(scene, ranks, CONFIG).step),
    }
    np.savez(folder / f"{ranks.rank}.npz", **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
