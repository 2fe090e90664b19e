"""Training loop of a `Run`, with checkpoints and recovery from GPU failures."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import closing

from nerfmac.app.run import messages
from nerfmac.app.run.interface import RunInterface
from nerfmac.app.run.together import check_alike, survived
from nerfmac.training.goal import Goal, Report
from nerfmac.training.measured import DivergedError

SAVE_SECONDS = 30.0
"""Time in seconds between two checkpoints during training."""

_RATE_WEIGHT = 0.05  # Weight of a report in the moving averages of rays and samples per second.


def training_reports(run: RunInterface, goal: Goal) -> Generator[Report]:
    """Train a run and save it every `SAVE_SECONDS`. The caller must have locked the run.

    Args:
        run: Run to train.
        goal: Total number of steps or training time.

    Yields:
        A `Report` after every few training steps. `run.state` is then `report.state`.

    Raises:
        InputError: If the ranks have different configurations or scenes, or the images cannot be
            read.
        DivergedError: If the loss is not finite. The run keeps the last good state.
        LostRankError: If another rank has failed.
    """

    def save_lost() -> str:
        if run.folder is None:
            return "the first rank saves the run"
        run.save_checkpoint(run.folder)
        return f"the state after step {run.state.step} is saved in {run.folder}"

    ranks = run.trainer.ranks
    check_alike(ranks, run.config, run.scene)
    for _ in survived(ranks, run.prepare, save_lost):
        pass
    reports = survived(ranks, lambda: run.trainer.train(run.state, goal), save_lost)
    saved = time.perf_counter()
    try:
        for report in reports:
            _update(run, report)
            yield report
            if run.folder is not None and time.perf_counter() - saved > SAVE_SECONDS:
                run.save_checkpoint(run.folder)
                saved = time.perf_counter()
    except DivergedError as error:
        run.state, error.run = run.last_good or run.state, run
        raise
    finally:
        if run.folder is not None:
            run.save(run.folder)


def _update(run: RunInterface, report: Report) -> None:
    """Update the run's state, history, and throughput with the values in a report."""
    run.state = report.state
    if not report.is_skipped:
        run.last_good = report.state
    run.history.add(report)
    points = run.history.points
    if run.state.step >= messages.CHECKED_AT and not run.is_checked and points:
        run.is_checked, blend = True, run.config.train.blend
        messages.warn_if_nothing_is_learned(points, run.trainer.views, blend)
    (rays, samples), weight = run.rates, _RATE_WEIGHT if any(run.rates) else 1.0
    rays += weight * (report.rays_per_second - rays)
    run.rates = rays, samples + weight * (report.samples_per_second - samples)


def train_with_bar(
    run: RunInterface, goal: Goal, on_report: Callable[[Report], None] | None, *, shown: bool
) -> None:
    """Train a run until a goal is reached, with a progress bar.

    Args:
        run: Run to train.
        goal: Total number of steps or training time.
        on_report: Callback for each report, or None.
        shown: Whether to show the progress bar.

    Raises:
        InputError: In the same cases as `Run.fit`.
        DivergedError: If the loss is not finite. The run keeps the last good state.
    """
    by_steps = bool(goal.steps)
    done = run.state.step if by_steps else run.state.train_seconds
    limit, unit = (float(goal.steps or 0), "steps") if by_steps else (goal.seconds or 0.0, "s")
    reports = run.fit(goal)
    with closing(reports), messages.training_bar(done, limit, unit, shown=shown) as bar:
        for report in reports:
            bar.set_postfix_str(str(report), refresh=False)
            now = report.state.step if by_steps else report.state.train_seconds
            bar.update(min(now, limit) - bar.n)
            if on_report:
                on_report(report)
