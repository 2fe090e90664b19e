"""Judge a change to the method: train objects and places with several seeds, and compare.

    python scripts/judge.py lego fox:downscale=2,group=place --seconds 20 --json before.json
    python scripts/judge.py lego fox:downscale=2,group=place --seconds 20 --before before.json

Each argument is SCENE[:KEY=VALUE,...]. The keys are the options of `nerfmac.load_scene` in
`trials.OPTIONS`, and `name` and `group` for the table. A scene whose pictures have transparency is
an object, any other one a place. `--list FILE.json` holds more scenes, as objects with the key
"scene" and the same keys. Every run has the same training time and a process of its own.
`--set train.disparity=0.03` changes a setting of the preset, once or several times.

The table has a line for each scene: PSNR of the held-out views of the worst seed, means over seeds,
and the figures of an earlier run of this script (`--before`) beside them.
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

import nerfmac
from nerfmac import Config
from nerfmac.config.record import with_settings
from nerfmac.measure.bench.trials import (
    Trial,
    TrialScene,
    check_names,
    outcomes,
    parsed,
    trial_scene,
)

GROUPS = ("object", "place")
SHEET_VIEWS, SHEET_WIDTH = 6, 320
"""Most views of a contact sheet, and the width of each picture in pixels."""
FIGURES = ("psnr worst", "psnr mean", "ssim mean")


@dataclass(frozen=True)
class Judged:
    """A scene to train on, with its group in the table."""

    scene: TrialScene
    group: str


def judged(keys: dict[str, Any]) -> Judged:
    """The scene with these `keys`, whose files are checked. Raises `InputError`."""
    group = keys.get("group")
    if group not in (None, *GROUPS):
        raise nerfmac.InputError(f"group is {group!r}; expected one of {', '.join(GROUPS)}")
    scene = trial_scene({key: keys[key] for key in keys if key != "group"}, {})
    return Judged(scene, group or ("object" if scene.has_alpha else "place"))


def write_sheet(path: Path, run: nerfmac.Run) -> None:
    """Write a PNG with a row for each of some held-out views: photograph, rendering, depth."""
    views, rows = run.views("test", progress=False), []
    for index in np.unique(np.linspace(0, len(views.names) - 1, SHEET_VIEWS).astype(int)):
        rendered = run.render(views.cameras[int(index)])
        seen = rendered.opacity > 0.5
        near, far = np.percentile(rendered.depth[seen], [1, 99]) if seen.any() else (0.0, 1.0)
        grey = 1.0 - 0.8 * (rendered.depth - near) / max(far - near, 1e-6)  # near is white
        photograph = np.array(views.blended(int(index), blend=run.config.train.blend))
        depth = np.repeat(np.where(seen, grey, 0.0)[..., None], 3, axis=2)
        rows.append(np.hstack([small(picture) for picture in (photograph, rendered.colour, depth)]))
    width = max(row.shape[1] for row in rows)
    padded = [np.pad(row, ((0, 2), (0, width - row.shape[1]), (0, 0))) for row in rows]
    Image.fromarray(np.vstack(padded)).save(path)


def small(picture: np.ndarray) -> np.ndarray:
    """A picture (h, w, 3) in [0, 1] as uint8, `SHEET_WIDTH` pixels wide."""
    image = Image.fromarray(np.round(255.0 * np.clip(picture, 0.0, 1.0)).astype(np.uint8))
    return np.array(image.resize((SHEET_WIDTH, round(SHEET_WIDTH * image.height / image.width))))


def figures(runs: list[dict[str, Any]]) -> dict[str, float]:
    """The `FIGURES` of a scene's runs."""
    psnr = [run["psnr"] for run in runs]
    values = min(psnr), mean(psnr), mean(run["ssim"] for run in runs)
    return dict(zip(FIGURES, values, strict=True))


def table(scenes: dict[str, Any], before: dict[str, Any]) -> Iterator[str]:
    """Lines of the printed table; `scenes` and `before` are "scenes" of the JSON files."""
    yield f"{'':8}{'':20}" + "".join(f"{name:>12}{'before':>9}" for name in FIGURES) + "  seeds"
    for group in GROUPS:
        own = {name: scene for name, scene in scenes.items() if scene["group"] == group}
        now = {name: figures(scene["runs"]) for name, scene in own.items()}
        old = {name: figures(before[name]["runs"]) for name in own if name in before}
        for name, scene in own.items():
            runs = sorted(scene["runs"], key=lambda run: run["psnr"])
            seeds = (f"{r['psnr']:.2f}{' DIVERGED' if r['diverged'] else ''}" for r in runs)
            yield f"{line(group, name, now[name], old.get(name))}  {' '.join(seeds)}"
        if own:
            is_whole = old.keys() == own.keys()
            yield line(
                group, f"mean of {len(own)}", average(now), average(old) if is_whole else None
            )


def average(by_scene: dict[str, dict[str, float]]) -> dict[str, float]:
    """The mean of each figure over scenes."""
    return {name: mean(values[name] for values in by_scene.values()) for name in FIGURES}


def line(group: str, name: str, now: dict[str, float], old: dict[str, float] | None) -> str:
    """A line of the table: each of the figures `now`, and `old` beside it."""
    text = f"{group:8}{name:20.20}"
    for figure in FIGURES:
        digits = 2 if figure.startswith("psnr") else 3
        text += f"{now[figure]:12.{digits}f}"
        text += f"{old[figure]:9.{digits}f}" if old else f"{'-':>9}"
    return text


def main(words: list[str]) -> int:
    """Train, print the table and write the files; return the exit code."""
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
    """Do as `arguments` say. Raises `InputError`."""
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
            entry.scene, seed, on_run=sheet_writer(arguments.sheets, entry.scene, seed), **settings
        )
        for entry in judging
        for seed in range(arguments.seeds)
    ]
    for trial, run in outcomes(trials):
        scenes[trial.scene.name]["runs"].append(run)
        print(f"{trial.scene.name}, seed {trial.seed}: {run['psnr']:.2f} dB", file=sys.stderr)
        if arguments.json:
            arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    for name, value in settings.items():
        if arguments.before and earlier.get(name) != value:
            print(f"before had {name} {earlier.get(name)}, now it is {value}")
    print("\n".join(table(scenes, earlier["scenes"])))
    return 0


def changes(words: list[str]) -> dict[str, Any]:
    """The settings in NAME=VALUE `words`; a value is JSON, else text. Raises `InputError`."""
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
    """The function that writes a run's contact sheet to `folder`; None without one."""
    return partial(write_sheet, folder / f"{scene.name}-seed-{seed}.png") if folder else None


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
