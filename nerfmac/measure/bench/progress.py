"""A progress bar on standard error, erased when it is done; training with one."""

from __future__ import annotations

from typing import Any

from tqdm.auto import tqdm

from nerfmac.run import Run
from nerfmac.training.goal import Goal


class Bar(tqdm):
    """`with Bar(what, total, unit) as bar: bar.reach(done)`."""

    def __init__(self, what: str, total: float, unit: str, *, disable: bool = False) -> None:
        """`total`: seconds, steps or whatever `unit` says; none of them done yet."""
        form = "{desc} |{bar}| {n:.0f}/{total:.0f} {unit}, {remaining} left"
        how: dict[str, Any] = {"miniters": 1, "leave": False, "disable": disable}
        super().__init__(desc=what, total=total, unit=unit, bar_format=form, **how)

    def reach(self, done: float) -> None:
        """Show `done` of the total; more than the total counts as the total."""
        self.update(min(done, self.total) - self.n)


def trained(run: Run, steps: int) -> Run:
    """The run, after `steps` steps in all; a bar shows how far it is."""
    with Bar("training", steps, "steps") as bar:
        for report in run.fit(Goal(steps=steps)):
            bar.reach(report.state.step)
    return run


def no_line(_line: str) -> None:
    """Show no line of a table."""
