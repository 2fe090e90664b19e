"""Evaluate a change to the method: train on several scenes with several seeds, and compare.

    python scripts/judge.py lego fox:downscale=2,seconds=15 --json before.json
    python scripts/judge.py --list scenes.json --before before.json > table.md

Each argument is SCENE[:KEY=VALUE,...]. The keys are the options of `nerfmac.load_scene` in
`trials.OPTIONS`, `name` and `group` for the table, and `seconds`, `seeds`, and `background` if they
differ from the command-line values. A scene with transparent images is an object, any other scene
is a place. `--list FILE.json` contains more scenes, as objects with the key "scene" and the same
keys. Each run is a separate process. `--set train.occlusion=0.03` changes a setting of the preset.
The option can be repeated.

The result is a Markdown table on standard output with a row for each scene. A row contains the PSNR
of the held-out views for each seed, the mean PSNR, the worst view of all seeds, and SSIM. The PSNR
of a place is also measured with the given held-out cameras and with held-out cameras that have been
optimized on their own images, whether or not training refines poses. The row also contains the
depth error at sparse points that training did not use, the fraction of ground-plane pixels with the
right depth, the number of steps, and the seconds before the first step. With `--before`, the
metrics of an earlier run of this script are shown next to them.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from PIL import Image
from trials import (
    Trial,
    TrialScene,
    check_names,
    outcomes,
    parsed,
    trial_scene,
    with_settings,
)

import nerfmac
from nerfmac import Config

GROUPS = ("object", "place")
SHEET_VIEWS, SHEET_WIDTH = 6, 320
"""Maximum number of views of a contact sheet, and the width of each image in pixels."""
METRICS = {
    "psnr": ".2f",
    "worst_view": ".2f",
    "ssim": ".3f",
    "psnr_given": ".2f",
    "psnr_optimized": ".2f",
    "depth_error_median_test": ".2%",
    "depth_error_p90_test": ".1%",
    "plane_within_5_percent_test": ".0%",
}
"""Metrics that are compared with an earlier run, and their number formats. A scene without sparse
points has no depth errors. Objects, whose cameras are exact, have no `psnr_given` and
`psnr_optimized`."""


@dataclass(frozen=True)
class Judged:
    """A scene to train on."""

    scene: TrialScene
    group: str
    """Group of the scene in the table."""
    background: str
    seconds: float | None
    """Training time in seconds, or None for the value on the command line."""
    seeds: int | None
    """Number of seeds, or None for the value on the command line."""


def judged(keys: dict[str, Any]) -> Judged:
    """Return the scene with these `keys`, after checking its files.

    Raises:
        InputError: If a key is unknown or has a wrong value.
    """
    own = {key: keys[key] for key in keys if key not in ("group", "seconds", "seeds", "background")}
    group = keys.get("group")
    if group not in (None, *GROUPS):
        raise nerfmac.InputError(f"group is {group!r}; expected one of {', '.join(GROUPS)}")
    limits: dict[str, Any] = {}
    for key, kind in (("seconds", float), ("seeds", int)):
        try:
            limits[key] = kind(keys[key]) if key in keys else None
        except ValueError:
            message = f"{key} is {keys[key]!r}; expected a number"
            raise nerfmac.InputError(message) from None
    scene = trial_scene(own, {})
    group = group or ("object" if scene.has_alpha else "place")
    return Judged(scene, group, keys.get("background", "white"), **limits)


def write_sheet(path: Path, run: nerfmac.Run) -> None:
    """Write a PNG contact sheet. For up to `SHEET_VIEWS` held-out views, a row shows the photo, the
    rendering, and the depth."""
    views, rows = run.views("test", progress=False), []
    for index in np.unique(np.linspace(0, len(views.names) - 1, SHEET_VIEWS).astype(int)):
        rendered = run.render(views.cameras[int(index)])
        seen = rendered.opacity > 0.5
        near, far = np.percentile(rendered.depth[seen], [1, 99]) if seen.any() else (0.0, 1.0)
        gray = 1.0 - 0.8 * (rendered.depth - near) / max(far - near, 1e-6)  # near is white
        photo = np.array(views.blended(int(index), blend=run.config.train.blend))
        depth = np.repeat(np.where(seen, gray, 0.0)[..., None], 3, axis=2)
        rows.append(np.hstack([small(image) for image in (photo, rendered.color, depth)]))
    width = max(row.shape[1] for row in rows)
    padded = [np.pad(row, ((0, 2), (0, width - row.shape[1]), (0, 0))) for row in rows]
    Image.fromarray(np.vstack(padded)).save(path)


def small(image: np.ndarray) -> np.ndarray:
    """Convert an image (h, w, 3) in [0, 1] to uint8 with a width of `SHEET_WIDTH` pixels."""
    scaled = Image.fromarray(np.round(255.0 * np.clip(image, 0.0, 1.0)).astype(np.uint8))
    return np.array(scaled.resize((SHEET_WIDTH, round(SHEET_WIDTH * scaled.height / scaled.width))))


def metrics(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Return the mean over the seeds of each of the `METRICS` that all runs of a scene have.
    `worst_view` is the minimum over all seeds."""
    shared = [name for name in METRICS if all(name in run for run in runs)]
    values = {name: mean(run[name] for run in runs) for name in shared}
    return values | {"worst_view": min(run["worst_view"] for run in runs)}


def table(scenes: dict[str, Any], before: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the Markdown table. `scenes` and `before` are the values of "scenes" in
    the JSON files."""
    names = ("scene", "seeds", *(f"{name.replace('_', ' ')} | before" for name in METRICS))
    yield f"| {' | '.join((*names, 'steps', 'start (s)'))} |"
    yield "| --- | --- |" + " ---: |" * (2 * len(METRICS) + 2)
    for group in GROUPS:
        own = {name: scene["runs"] for name, scene in scenes.items() if scene["group"] == group}
        now = {name: metrics(runs) for name, runs in own.items()}
        old = {name: metrics(before[name]["runs"]) for name in own if name in before}
        for name, runs in own.items():
            seeds = (f"{r['psnr']:.2f}{' DIVERGED' if r['diverged'] else ''}" for r in runs)
            steps = round(mean(run["steps"] for run in runs))
            start = f"{min(run['start_seconds'] for run in runs):.1f}"
            label = f"{name}, {mean(run['seconds'] for run in runs):.0f} s"
            yield row(label, " ".join(seeds), now[name], old.get(name), str(steps), start)
        if own:
            is_whole = old.keys() == own.keys()
            label = f"mean of {len(own)} {group}s"
            yield row(label, "", average(now), average(old) if is_whole else None, "", "")


def average(by_scene: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return the mean over all scenes of each metric that all scenes have."""
    shared = [name for name in METRICS if all(name in values for values in by_scene.values())]
    return {name: mean(values[name] for values in by_scene.values()) for name in shared}


def row(
    label: str, seeds: str, now: dict[str, float], old: dict[str, float] | None, *rest: str
) -> str:
    """Return a line of the table with the metrics `now` and, next to each, the metric in `old`."""
    cells = [label, seeds]
    for name, form in METRICS.items():
        cells += [
            format(values[name], form) if name in values else "" for values in (now, old or {})
        ]
    return f"| {' | '.join((*cells, *rest))} |"


def main(words: list[str]) -> int:
    """Train, print the table, write the files, and return the exit code."""
    parser = argparse.ArgumentParser(description="Train scenes with several seeds and compare.")
    parser.add_argument("scenes", nargs="*", metavar="SCENE[:KEY=VALUE,...]")
    parser.add_argument("--list", type=Path, metavar="FILE.json", help="more scenes")
    parser.add_argument("--seconds", type=float, help="training time of each run; 20 by default")
    parser.add_argument(
        "--steps", type=int, help="training steps of each run, in place of --seconds"
    )
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds, from 0; default 3")
    parser.add_argument("--preset", default="auto", help="preset: size of the model")
    parser.add_argument("--device", default="auto", help="device that computes")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="change a setting"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    parser.add_argument(
        "--before", type=Path, metavar="FILE", help="compare with this file of an earlier --json"
    )
    parser.add_argument(
        "--sheets", type=Path, metavar="DIR", help="write contact sheets (PNG) here"
    )
    arguments = parser.parse_args(words)
    try:
        return judge(arguments)
    except (nerfmac.InputError, OSError, json.JSONDecodeError) as error:
        print(f"judge: {error}", file=sys.stderr)
        return 2


def judge(arguments: argparse.Namespace) -> int:
    """Run the trials for the command-line `arguments` and return the exit code. Raises `InputError`
    if an argument is invalid."""
    listed = json.loads(arguments.list.read_text()) if arguments.list else []
    judging = [judged(keys) for keys in (*map(parsed, arguments.scenes), *listed)]
    check_names([entry.scene for entry in judging])
    if arguments.seeds < 1:
        raise nerfmac.InputError(f"seeds is {arguments.seeds}; expected at least 1")
    earlier = json.loads(arguments.before.read_text()) if arguments.before else {"scenes": {}}
    seconds = arguments.seconds or (None if arguments.steps else 20.0)
    settings: dict[str, Any] = {
        "seconds": seconds,
        "steps": arguments.steps,
        "preset": arguments.preset,
    }
    settings |= {"device": arguments.device, "changes": changes(arguments.set)}
    if arguments.sheets:
        arguments.sheets.mkdir(parents=True, exist_ok=True)
    scenes: dict[str, Any] = {
        entry.scene.name: {**asdict(entry.scene), "group": entry.group, "runs": []}
        for entry in judging
    }
    result = {"nerfmac": nerfmac.__version__, **settings, "scenes": scenes}
    trials = [
        Trial(
            entry.scene,
            seed,
            background=entry.background,
            on_run=sheet_writer(arguments.sheets, entry.scene, seed),
            **settings | ({"seconds": entry.seconds, "steps": None} if entry.seconds else {}),
        )
        for entry in judging
        for seed in range(entry.seeds or arguments.seeds)
    ]
    for trial, run in outcomes(trials):
        scenes[trial.scene.name]["runs"].append(run)
        print(f"{trial.scene.name}, seed {trial.seed}: {run['psnr']:.2f} dB", file=sys.stderr)
        if arguments.json:
            arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    for name, value in settings.items():
        if arguments.before and earlier.get(name) != value:
            was = earlier.get(name)
            print(f"before had {name} {was}, now it is {value}", file=sys.stderr)
    print("\n".join(table(scenes, earlier["scenes"])))
    return 0


def changes(words: list[str]) -> dict[str, Any]:
    """Parse the settings in `words` of the form NAME=VALUE. A value is JSON or text. Raises
    `InputError` if a word is invalid."""
    values: dict[str, Any] = {}
    for word in words:
        name, separator, text = word.partition("=")
        if not separator:
            raise nerfmac.InputError(f"--set is {word!r}; expected NAME=VALUE")
        try:
            values[name] = json.loads(text)
        except json.JSONDecodeError:
            values[name] = text
    with_settings(Config(), values)
    return values


def sheet_writer(
    folder: Path | None, scene: TrialScene, seed: int
) -> Callable[[nerfmac.Run], None] | None:
    """Return the function that writes the contact sheet of a run to `folder`, or None without a
    folder."""
    return partial(write_sheet, folder / f"{scene.name}-seed-{seed}.png") if folder else None


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
