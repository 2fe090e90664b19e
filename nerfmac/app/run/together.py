"""The work that the ranks of a run do together, and that continues after a failure of the GPU."""

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
    """Raise `InputError` unless all ranks have this configuration and scene, and `LostRankError`.

    Ranks are not watched yet: another one may still read images, for minutes.
    """
    with noticed(ranks):
        ranks.check_alike("their configurations", repr(config.to_json()))
        ranks.check_alike("their scenes", repr(replace(scene, path=None)))


def survived(
    ranks: Ranks, begin: Callable[[], Iterable[Item]], save: Callable[[], str]
) -> Iterator[Item]:
    """Yield the items of `begin()`, which the `ranks` compute together.

    After a failure that `nerfmac.backend.watchdog` describes, calls `save` and begins again. With
    several ranks it raises the error, since the others would not wait. Raises `LostRankError`.
    """
    retries = RETRIES if ranks.size == 1 else 0
    return resumed(lambda _done: watched(ranks, begin(), save), retries, on_failure=save)
