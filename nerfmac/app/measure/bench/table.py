"""A paper's table: quality of scenes over seeds, as Markdown, LaTeX and JSON.

Its protocol is the one that papers of the field state: all test views of each scene, the mean of
the views' PSNRs, a named background, and the time of the training steps alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import mean, stdev
from typing import Any, NamedTuple

METRICS = {"psnr": ("PSNR, dB", 2), "ssim": ("SSIM", 4), "lpips": ("LPIPS", 4)}
"""Heading and decimals of each metric."""
LATEX = {"\\": r"\textbackslash{}", **{sign: f"\\{sign}" for sign in "_%&#${}"}}
"""Characters with a meaning in LaTeX, and how to write them."""


class Statistic(NamedTuple):
    """Mean of a figure over seeds, and its sample standard deviation; None for one seed."""

    mean: float
    spread: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Statistic:
        """The statistic of one value a seed."""
        return cls(mean(values), stdev(values) if len(values) > 1 else None)

    def shown(self, decimals: int, between: str) -> str:
        """Mean and spread with so many `decimals`."""
        both = [value for value in self if value is not None]
        return between.join(f"{value:.{decimals}f}" for value in both)


class Row(NamedTuple):
    """A row of the table: a scene, or the mean over scenes."""

    name: str
    metrics: dict[str, Statistic]
    steps: float
    """Mean over seeds, as the training time."""
    seconds: float
    views: str
    """Number of test views, all evaluated; empty in the row of means."""

    def cells(self, between: str) -> list[str]:
        """The row's text, column by column."""
        metrics = [
            statistic.shown(METRICS[name][1], between) for name, statistic in self.metrics.items()
        ]
        return [self.name, *metrics, f"{self.steps:.0f}", f"{self.seconds:.1f}", self.views]


@dataclass(frozen=True)
class ResultTable:
    """The results of trials, as `trials.trained` returns them, with one list a scene.

    All scenes have the same seeds. `about` holds machine and settings as JSON values.
    """

    runs: dict[str, list[dict[str, Any]]]
    about: dict[str, Any]

    @cached_property
    def rows(self) -> list[Row]:
        """A row for each scene and, for several, one of means.

        The spread in the last one is that of the mean over scenes, from seed to seed.
        """
        rows = [_row(name, runs, str(runs[0]["test_views"])) for name, runs in self.runs.items()]
        if len(rows) > 1:
            means = [
                {
                    key: mean(run[key] for run in runs)
                    for key in ("steps", "seconds", *_metrics(runs))
                }
                for runs in zip(*self.runs.values(), strict=True)
            ]
            rows.append(_row(f"mean of {len(rows)}", means, ""))
        return rows

    @property
    def heading(self) -> list[str]:
        """The heading of each column."""
        metrics = [METRICS[name][0] for name in self.rows[0].metrics]
        return ["scene", *metrics, "steps", "training, s", "test views"]

    def notes(self) -> Iterator[str]:
        """The protocol, a sentence or two a line."""
        seeds = [run["seed"] for run in next(iter(self.runs.values()))]
        spread = "mean ± sample standard deviation over" if len(seeds) > 1 else ""
        shown = f"seeds {', '.join(map(str, seeds))}" if len(seeds) > 1 else f"seed {seeds[0]}"
        presets = sorted({run["preset"] for runs in self.runs.values() for run in runs})
        program = f"nerfmac {self.about['nerfmac_version']} on {self.about['device_name']}"
        yield f"{program}, preset {' and '.join(presets)}; {spread} {shown}.".replace("  ", " ")
        first = next(iter(self.runs.values()))[0]["protocol"]
        yield (
            "PSNR is the mean of the PSNRs of all test views that were read; all pixels, over "
            f"{first['background']}, alpha blended in {first['blend']}."
        )
        yield "Training time leaves out reading pictures, compiling kernels and evaluation."
        for name, runs in self.runs.items():
            about, options = runs[0]["protocol"], runs[0]["options"]
            width, height = about["size"]
            read = ", ".join(f"{key}={value}" for key, value in options.items())
            yield (
                f"{name}: {about['train_views']} training views, {runs[0]['test_views']} test "
                f"views of {width}x{height} pixels; held out: {about['held_out']}"
                f"{'; read with ' + read if read else ''}."
            )
            if diverged := [str(run["seed"]) for run in runs if run["diverged"]]:
                yield f"{name} diverged with seed {', '.join(diverged)}; its last good state counts"

    def markdown(self) -> Iterator[str]:
        """The lines of a Markdown table, and the protocol below."""
        ruler = ["---"] + ["---:"] * (len(self.heading) - 1)
        for cells in (self.heading, ruler, *(row.cells(" ± ") for row in self.rows)):
            yield f"| {' | '.join(cells)} |"
        yield ""
        yield from self.notes()

    def latex(self) -> Iterator[str]:
        """The lines of a LaTeX table, which needs the package booktabs."""
        yield from (f"% {note}" for note in self.notes())
        yield rf"\begin{{tabular}}{{l{'r' * (len(self.heading) - 1)}}}"
        yield r"\toprule"
        yield _latex_row(self.heading)
        yield r"\midrule"
        for row in self.rows:
            if not row.views:
                yield r"\midrule"
            yield _latex_row(row.cells(" ± "))
        yield r"\bottomrule"
        yield r"\end{tabular}"

    def to_json(self) -> dict[str, Any]:
        """The statistics and every run, as JSON values."""
        rows = {
            row.name: {name: statistic._asdict() for name, statistic in row.metrics.items()}
            | {"steps": row.steps, "seconds": row.seconds}
            for row in self.rows
        }
        return {**self.about, "notes": list(self.notes()), "rows": rows, "runs": self.runs}


def _metrics(runs: Sequence[dict[str, Any]]) -> list[str]:
    return [name for name in METRICS if all(name in run for run in runs)]


def _row(name: str, runs: Sequence[dict[str, Any]], views: str) -> Row:
    metrics = {key: Statistic.of([run[key] for run in runs]) for key in _metrics(runs)}
    steps, seconds = (mean(run[key] for run in runs) for key in ("steps", "seconds"))
    return Row(name, metrics, steps, seconds, views)


def _latex_row(cells: Sequence[str]) -> str:
    written = ["".join(LATEX.get(sign, sign) for sign in cell) for cell in cells]
    return " & ".join(cell.replace("±", r"$\pm$") for cell in written) + r" \\"
