"""Judge a change to the method: train objects and places with several seeds, and compare.

    python scripts/judge.py lego fox:downscale=2,group=place --seconds 20 --json before.json
    python scripts/judge.py lego fox:downscale=2,group=place --seconds 20 --before before.json

Each argument is SCENE[:KEY=VALUE,...]. The keys are the options of `nerfmac.load_scene` in
`OPTIONS`, and `name` and `group` for the table. A scene whose pictures have transparency is an
object, any other one a place. `--list FILE.json` holds more scenes, as objects with the key "scene"
and the same keys. Every run has the same training time and a process of its own.

The table has a line for each scene: PSNR of the held-out views of the worst seed, means over seeds,
and the figures of an earlier run of this script (`--before`) beside them.
"""

import argparse
import json
import multiprocessing
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from PIL import Image

import nerfmac

OPTIONS = {"downscale": int, "max_images": int, "split": str, "extent": float, "up": str}
"""Options of `nerfmac.load_scene` that a scene may have, with their types."""
GROUPS = ("object", "place")
SHEET_VIEWS, SHEET_WIDTH = 6, 320
"""Most views of a contact sheet, and the width of each picture in pixels."""
FIGURES = ("psnr worst", "psnr mean", "ssim mean")


@dataclass(frozen=True)
class Judged:
    """A scene to train on, with its name and group in the table."""

    path: str
    name: str
    group: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Training:
    """Settings of one training, which runs in a process of its own."""

    scene: Judged
    seed: int
    seconds: float | None
    steps: int | None
    preset: str
    device: str
    sheet: Path | None  # PNG to write


def parsed(text: str) -> dict[str, Any]:
    """The keys and values in an argument SCENE[:KEY=VALUE,...]. Raises `InputError`."""
    path, _, settings = text.partition(":")
    keys: dict[str, Any] = {"scene": path}
    for setting in filter(None, settings.split(",")):
        key, separator, value = setting.partition("=")
        if not separator:
            raise nerfmac.InputError(f"{text!r} has {setting!r}; expected KEY=VALUE")
        keys[key] = value
    return keys


def judged(keys: dict[str, Any]) -> Judged:
    """The scene with these `keys`, whose files are checked. Raises `InputError`."""
    known = ["scene", "name", "group", *OPTIONS]
    if unknown := sorted(set(keys) - set(known)):
        raise nerfmac.InputError(f"a scene has {', '.join(unknown)}; expected {', '.join(known)}")
    if "scene" not in keys:
        raise nerfmac.InputError(f"{keys} has no scene; expected a path at the key 'scene'")
    options = {}
    for key, convert in OPTIONS.items():
        if key in keys:
            try:
                options[key] = convert(keys[key])
            except ValueError:
                message = f"{key} is {keys[key]!r}; expected {convert.__name__}"
                raise nerfmac.InputError(message) from None
    scene = nerfmac.load_scene(keys["scene"], **options)
    scene.cameras("test")  # without held-out views there is nothing to judge
    group = keys.get("group", "object" if scene.has_alpha else "place")
    if group not in GROUPS:
        raise nerfmac.InputError(f"group is {group!r}; expected one of {', '.join(GROUPS)}")
    path = Path(keys["scene"]).resolve()
    return Judged(str(path), keys.get("name", path.name), group, options)


def trained(training: Training) -> dict[str, Any]:
    """Train and evaluate one run, and write its contact sheet; returns JSON values."""
    scene = nerfmac.load_scene(training.scene.path, **training.scene.options)
    settings: dict[str, Any] = {"preset": training.preset, "device": training.device}
    settings |= {"seconds": training.seconds, "steps": training.steps, "seed": training.seed}
    has_diverged = False
    try:
        run = nerfmac.train(scene, progress=False, **settings)
    except nerfmac.DivergedError as error:
        if error.run is None:
            raise
        run, has_diverged = error.run, True
    views = run.evaluate("test", progress=False)
    if training.sheet:
        write_sheet(run, training.sheet)
    return {
        "seed": training.seed,
        "psnr": mean(view.psnr for view in views),
        "ssim": mean(view.ssim for view in views),
        "steps": run.state.step,
        "seconds": run.state.train_seconds,
        "diverged": has_diverged,
    }


def write_sheet(run: nerfmac.Run, path: Path) -> None:
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
    names = [scene.name for scene in judging]
    if not names or len(set(names)) < len(names) or arguments.seeds < 1:
        raise nerfmac.InputError(
            f"scenes are {names}, seeds {arguments.seeds}; expected at least one scene, names that "
            "differ (set name=), and at least one seed"
        )
    earlier = json.loads(arguments.before.read_text()) if arguments.before else {"scenes": {}}
    seconds = arguments.seconds or (None if arguments.steps else 20.0)
    settings = {"seconds": seconds, "steps": arguments.steps, "preset": arguments.preset}
    settings["device"] = arguments.device
    if arguments.sheets:
        arguments.sheets.mkdir(parents=True, exist_ok=True)
    scenes: dict[str, Any] = {scene.name: {**asdict(scene), "runs": []} for scene in judging}
    result = {"nerfmac": nerfmac.__version__, **settings, "scenes": scenes}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        for scene in judging:
            for seed in range(arguments.seeds):
                sheet = arguments.sheets and arguments.sheets / f"{scene.name}-seed-{seed}.png"
                job = Training(scene, seed, sheet=sheet, **settings)
                run = pool.submit(trained, job).result()
                scenes[scene.name]["runs"].append(run)
                print(f"{scene.name}, seed {seed}: {run['psnr']:.2f} dB", file=sys.stderr)
                if arguments.json:
                    arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    for name, value in settings.items():
        if arguments.before and earlier.get(name) != value:
            print(f"before had {name} {earlier.get(name)}, now it is {value}")
    print("\n".join(table(scenes, earlier["scenes"])))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
