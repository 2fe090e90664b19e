"""Computations that all ranks of a run execute together, with recovery from GPU failures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from nerfmac.app.scenes.record import SceneRecord
from nerfmac.backend.watchdog import RETRIES, resumed
from nerfmac.config import Config
from nerfmac.ranks import Ranks, noticed, watched

Item = TypeVar("Item")


def check_alike(ranks: Ranks, config: Config, scene: SceneRecord) -> None:
    """Check that all ranks have the same configuration and scene.

    The check has no time limit, because another rank may still be reading images for minutes.

    Args:
        ranks: Ranks of this training.
        config: Configuration of this rank.
        scene: Scene record of this rank. The path may differ between ranks.

    Raises:
        InputError: If the configurations or the scenes differ.
        LostRankError: If another rank has failed.
    """
    with noticed(ranks):
        ranks.check_alike("their configurations", repr(config.to_json()))
        ranks.check_alike("their scenes", repr(replace(scene, path=None)))


def survived(
    ranks: Ranks, begin: Callable[[], Iterable[Item]], save: Callable[[], str]
) -> Iterator[Item]:
    """Yield items that the ranks compute together, and restart the computation after a GPU failure.

    After a GPU failure (see `nerfmac.backend.watchdog`), `save` is called and the computation
    restarts. If there is more than one rank, the computation does not restart and the exception is
    raised, because the other ranks would not wait for the restart.

    Args:
        ranks: Ranks of this training.
        begin: Function that starts the computation.
        save: Function that saves the state and returns a note about it.

    Yields:
        The items of `begin()`.

    Raises:
        LostRankError: If another rank has failed.
    """
    retries = RETRIES if ranks.size == 1 else 0
    return resumed(lambda _done: watched(ranks, begin(), save), retries, on_failure=save)
