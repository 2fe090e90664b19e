"""`Training`, the training of a run in memory or in a run folder.

Scene, device, memory, and options are determined before a training is created; see
`nerfmac.app.run.start`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tqdm.auto import tqdm

from nerfmac.app.run import folder as run_folder, reporting
from nerfmac.app.run.configuration import CONFIGURED, check_goal, limited
from nerfmac.app.run.run import Run
from nerfmac.app.scenes import Scene
from nerfmac.app.scenes.scene import text_of
from nerfmac.backend.watchdog import RETRIES, resumed
from nerfmac.common import InputError, locked, log, make_folder, user_path
from nerfmac.common.awake import awake
from nerfmac.ranks import current_ranks, noticed, watched
from nerfmac.training.goal import Goal, Report
from nerfmac.training.measured import DivergedError
from nerfmac.training.method import Method
from nerfmac.training.trainer import Trainer

SAVE_SECONDS = 30.0  # Time in seconds between two checkpoints during training.
_RATE_WEIGHT = 0.05  # Weight of a report in the moving averages of rays and samples per second.


class Training:
    """Training of a run, with one trainer. `fit` is the only training loop.

    In a run folder, the run is saved every 30 seconds and at the end, and no other process can
    train meanwhile.
    """

    def __init__(self, run: Run, folder: Path | None = None) -> None:
        """Create the training of `run`. If `folder` is None, the run is only in memory."""
        self.run, self.folder = run, folder
        self.saved_step = run.state.step  # Step of the last checkpoint.
        self.trainer: Trainer | None = None
        """Trainer on the views of the run, or None before `prepare`."""
        self._is_locked = False
        # Result of `checkpoint_mark` after this process last read or wrote the checkpoint.
        self._mark: tuple[int, int] | None = None

    @classmethod
    def begin(cls, run: Run, folder: str | Path) -> Training:
        """Save a new run in a folder, which must be absent or empty, and return its training."""
        folder = user_path(folder)
        run_folder.check_unused(folder)
        training = cls(run, folder)
        run.name = folder.resolve().name
        with training.locked(), run_folder.first_save(folder):
            training.save()
        return training

    @classmethod
    def resume(
        cls, folder: str | Path, scene: Scene | None = None, *, method: Method = CONFIGURED
    ) -> Training:
        """Load a run to continue its training in the same folder.

        `scene` is the scene of the run, if its files have been moved. `InputError` is raised in the
        same cases as by `Run.load`, if the folder has no checkpoint, and while another process
        trains the run.
        """
        folder = user_path(folder)
        # The folder is checked before `locked` removes an old lock file.
        if not run_folder.checkpoint_mark(folder):
            raise InputError(
                f"{folder} has no checkpoint, because its training stopped before the first one; "
                "train again without --resume"
            )
        with locked(folder):
            training = cls(Run.load(folder, scene, method=method), folder)
            training._mark = run_folder.checkpoint_mark(folder)
        return training

    def train(
        self,
        goal: Goal,
        *,
        progress: bool = True,
        on_report: Callable[[Report], None] | None = None,
    ) -> None:
        """Train until a goal is reached, with a progress bar.

        After an interruption (Ctrl-C or an exception in `on_report`), another call continues from
        the last report. For a goal without limits, the limit is the number of steps in the
        configuration.
        """
        check_goal(goal)
        state, goal = self.run.state, limited(goal, self.run.config)
        steps, seconds = goal.steps, goal.seconds
        if goal.progress(state) >= 1.0:
            limit_name = f"steps={steps} (--steps)" if steps else f"seconds={seconds:g} (--seconds)"
            log.warning(
                f"the run has already been trained for {state.step} steps and "
                f"{state.train_seconds:.1f} s; {limit_name} is the total, so there is nothing "
                "to train: increase it to continue"
            )
            return
        done = state.step if steps else state.train_seconds
        limit, unit = (float(steps), "steps") if steps else (seconds or 0.0, "s")
        reports = self.fit(goal)
        bar = tqdm(
            desc="training",
            total=limit,
            initial=min(done, limit),
            unit=unit,
            disable=not progress,
            bar_format="{l_bar}{bar}| {n:.0f}/{total:.0f} {unit}, {remaining} left{postfix}",
        )
        with closing(reports), bar:
            for report in reports:
                # This text is short enough for 80 columns.
                rates = f"{report.psnr:.1f} dB, {report.rays_per_second / 1e3:.0f}k rays/s"
                bar.set_postfix_str(rates, refresh=False)
                now = report.state.step if steps else report.state.train_seconds
                bar.update(min(now, limit) - bar.n)
                if on_report:
                    on_report(report)

    def fit(self, goal: Goal) -> Generator[Report]:
        """Train until a goal is reached, yielding reports.

        Closing the generator stops the training. A run with a folder is saved at the end.

        Args:
            goal: Total number of steps or training time.

        Yields:
            A `Report` after every few training steps, as soon as the device has computed the next
            report without an error. `state` of the run is then `report.state`.

        Raises:
            InputError: If the images cannot be read, or another process is training in the folder.
            DivergedError: If the loss is not finite. The run keeps the last good state.
            LostRankError: If another rank has failed.
        """
        run, ranks = self.run, current_ranks()
        with noticed(ranks):  # No time limit: another rank may still be reading images.
            ranks.check_alike("their configurations", repr(run.config.to_json()))
            ranks.check_alike("their scenes", text_of(run.scene))
        good, saved = run.state, time.perf_counter()  # State after a step that was not skipped.
        with self.locked(), awake():
            try:
                for report in self._growing(goal):
                    if report is None:
                        good = run.state
                        continue
                    self._update(report)
                    good = good if report.is_skipped else report.state
                    if time.perf_counter() - saved > SAVE_SECONDS:
                        self.save(is_confirmed=True)
                        saved = time.perf_counter()
                    yield report
            except DivergedError as error:
                run.state, error.run = good, run
                raise
            finally:
                self.save(is_confirmed=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Context manager that prevents other processes from training in the run folder.

        `InputError` is raised if another process is training there, or if another process has
        replaced the checkpoint since this run last read or wrote it. Without a folder, the context
        manager has no effect.
        """
        if self.folder is None or self._is_locked:
            yield
            return
        make_folder(self.folder)
        with locked(self.folder):
            run_folder.check_unchanged(self.folder, self._mark)
            self._is_locked = True
            try:
                yield
            finally:
                self._is_locked = False

    def prepare(self) -> Iterator[None]:
        """Decode the images and compile the functions of the training step, and yield after each
        image and each compilation. If the run is already prepared, nothing is done."""
        run = self.run
        if self.trainer is None:
            yield from run.images().decoding("train")
            self.trainer = Trainer(run.model, run.images().views("train"))
        if self.trainer.is_compiled:
            return
        for seconds in self.trainer.compile(run.state):
            run.build_seconds += seconds
            yield
        reporting.log_backends(run.build_seconds)

    def refine(self, **switches: bool) -> None:
        """Enable or disable refinements, as `Run.refine` does, and save the run."""
        self.run.refine(**switches)
        self.trainer = None
        self.save()

    def save(self, *, is_confirmed: bool = False) -> None:
        """Save the run in its folder, if it has one. If the state is confirmed, the device is not
        used (see `Run.save_confirmed`)."""
        if self.folder is not None:
            (self.run.save_confirmed if is_confirmed else self.run.save)(self.folder)
            mark = run_folder.checkpoint_mark(self.folder)
            self._mark, self.saved_step = mark, self.run.state.step

    def _growing(self, goal: Goal) -> Iterator[Report | None]:
        """Yield the items of `_survived`. After `train.grow_at` steps, let the run grow, and begin
        again."""
        run, at = self.run, self.run.config.train.grow_at
        if at > run.state.step:
            with closing(self._survived(goal)) as reports:
                for report in reports:
                    yield report
                    if run.state.step >= at:
                        break
        if 0 < at <= run.state.step and goal.progress(run.state) < 1.0:
            run.grow()
            self.trainer = None
        yield from self._survived(goal)

    def _survived(self, goal: Goal) -> Generator[Report | None]:
        """Yield None during the preparation, and then confirmed reports. After a GPU failure, save
        the run and begin again, except with several ranks, because the others would not wait."""
        ranks = current_ranks()

        def items(_done: int) -> Iterator[Report | None]:
            parts = self._parts(goal)
            return parts if ranks.size == 1 else watched(ranks, parts, save)

        def save() -> str:
            self.save(is_confirmed=True)
            if self.folder is None:
                return "the first rank saves the run"
            return f"the state after step {self.run.state.step} is saved in {self.folder}"

        return resumed(items, RETRIES if ranks.size == 1 else 0, on_failure=save)

    def _parts(self, goal: Goal) -> Iterator[Report | None]:
        yield from self.prepare()
        assert self.trainer is not None
        yield from self.trainer.train(self.run.state, goal)

    def _update(self, report: Report) -> None:
        run = self.run
        before, run.state = run.state.step, report.state
        run.history.add(report)
        points = run.history.points  # None of a step that was skipped.
        if before < reporting.CHECKED_AT <= run.state.step and points:
            views, blend = run.images().views("train"), run.config.train.blend
            reporting.warn_if_nothing_is_learned(points, views, blend)
        (rays, samples), weight = run.rates, _RATE_WEIGHT if any(run.rates) else 1.0
        rays += weight * (report.rays_per_second - rays)
        run.rates = rays, samples + weight * (report.samples_per_second - samples)
