"""A bar on standard error, gone at the end, for what takes a given number of seconds or steps."""

from __future__ import annotations

from tqdm.auto import tqdm


class Bar(tqdm):
    """`with Bar(what, total, unit) as bar: bar.reach(done)`."""

    def __init__(self, what: str, total: float, unit: str) -> None:
        """Nothing is done yet."""
        form = "{desc} |{bar}| {n:.0f}/{total:.0f} {unit}, {remaining} left"
        super().__init__(
            desc=what, total=total, unit=unit, miniters=1, leave=False, bar_format=form
        )

    def reach(self, done: float) -> None:
        """So much is done by now; more than all is all."""
        self.update(min(done, self.total) - self.n)
