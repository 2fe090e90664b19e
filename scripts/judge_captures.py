"""Capture photos and videos with known cameras, and compare the results with the truth.

    python scripts/judge_captures.py --rendered
    python scripts/judge_captures.py photos:truth=scene,every=2 walk.mp4:frames=40

Each argument is SOURCE[:KEY=VALUE,...]. The keys are `name` for the table, `truth`, a scene with
the true cameras of images with the same names, `every` to use every n-th photo, and `frames`,
`matching`, or `focal_35mm` as in `nerfmac capture`. `--rendered` adds the inputs of
`rendered_captures.py`.

The result is a Markdown table on standard output with a row for each input: the verdict, the
number of registered images, the median error of the positions, relative to the mean distance of the
true cameras from their center, the median error of the rotations, and the time. The exit code is 1
if wrong cameras are accepted without a warning: more than 5 % or 5 degrees off.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pose_differences import differences
from rendered_captures import rendered_captures

from nerfmac.app.capture import capture_scene, stored_verdict
from nerfmac.app.capture.source import Source
from nerfmac.app.scenes import load_scene
from nerfmac.common.checks import InputError
from nerfmac.config.scenes import CaptureOptions

MAX_AWAY, MAX_DEGREES = 0.05, 5.0
OPTIONS = {"frames": int, "matching": str, "focal_35mm": float}


def main() -> int:
    """Run the script and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sources", nargs="*", metavar="SOURCE[:KEY=VALUE,...]")
    parser.add_argument("--rendered", action="store_true", help="also capture rendered photos")
    arguments = parser.parse_args()
    print("| input | verdict | images | positions | rotations | seconds |")
    print("| --- | --- | --- | --- | --- | --- |")
    is_wrong = False
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(arguments.sources):
            is_wrong |= _judged(text, Path(folder) / str(number))
        for capture in rendered_captures() if arguments.rendered else ():
            at = Path(folder) / capture.name
            cameras = capture.write(at / "photos")
            truth = {Path(name).stem: camera.pose for name, camera in cameras.items()}
            is_wrong |= _row(capture.name, at / "photos", at / "scene", truth, {})
    return int(is_wrong)


def _judged(text: str, folder: Path) -> bool:
    source, _, rest = text.partition(":")
    keys = dict(part.split("=", 1) for part in rest.split(",") if part)
    options = {key: kind(keys.pop(key)) for key, kind in OPTIONS.items() if key in keys}
    name, step = keys.pop("name", Path(source).stem), int(keys.pop("every", 1))
    truth: dict[str, Any] = {}
    if path := keys.pop("truth", None):
        scene = load_scene(path, split="none")
        truth = {Path(frame.name).stem: frame.camera.pose for frame in scene.splits["train"]}
    if keys:
        raise SystemExit(f"unknown keys in {text}: {', '.join(keys)}")
    photos = Path(source)
    if step > 1:
        chosen = folder / "photos"
        chosen.mkdir(parents=True)
        for image in Source(photos).photos[::step]:
            shutil.copyfile(image, chosen / image.name)
        photos = chosen
    return _row(name, photos, folder / "scene", truth, options)


def _row(
    name: str, source: Path, out: Path, truth: Mapping[str, Any], options: Mapping[str, Any]
) -> bool:
    """Capture, print a row of the table, and return whether wrong cameras were accepted."""
    start = time.perf_counter()
    cells, is_wrong = ["", "", ""], False
    try:
        capture_scene(source, out, CaptureOptions(**options), progress=False)
    except InputError as error:
        verdict = f"refused: {error}".replace("|", "/")
    else:
        findings = stored_verdict(out).findings
        verdict = "; ".join(finding.kind for finding in findings) or "accepted"
        frames = load_scene(out, split="none").splits["train"]
        cells[0] = str(len(frames))
        found = {Path(frame.name).stem: frame.camera.pose for frame in frames}
        common = sorted(found.keys() & truth.keys())
        if len(common) >= 3:
            poses = [np.array([of[key] for key in common], np.float64) for of in (found, truth)]
            away, degrees = map(np.median, differences(*poses))
            cells[1:] = [f"{away:.2%}", f"{degrees:.2f}"]
            is_wrong = not findings and bool(away > MAX_AWAY or degrees > MAX_DEGREES)
    took = time.perf_counter() - start
    print(f"| {name} | {verdict} | {' | '.join(cells)} | {took:.0f} |", flush=True)
    return is_wrong


if __name__ == "__main__":
    sys.exit(main())
