"""Structure from motion, stage by stage: each in a process of its own, with a bar, and resumed."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nerfmac.capture import colmap_process
from nerfmac.capture.material import Picture
from nerfmac.capture.pairs import LONG_WINDOW, Pairs, every_pair, in_sequence, in_space
from nerfmac.checks import InputError
from nerfmac.files import read_json, write_json
from nerfmac.scenes.colmap import camera_to_file
from nerfmac.scenes.colmap_model import ColmapModel, read_model

FOCAL_GUESS = 0.85
"""The focal length of an unknown lens, in longer sides of the picture: that of phones."""
FEWEST = 3
"""Cameras of a model that is kept."""
FULL = ("No space left", "disk is full", "disk I/O error", "File too large", "Disk quota")
"""What COLMAP's log has where its files have no room."""

log = logging.getLogger("nerfmac")


class Structure(NamedTuple):
    """The model with most of the pictures, and what is known of it beside its cameras.

    `error` is the mean reprojection error in pixels, `seen` how many points each picture has,
    `points` (n, 8) are x, y, z, red, green, blue, error and how many pictures see it, and `models`
    how many pictures each model has, this one and those that fit nowhere.
    """

    model: ColmapModel
    error: float
    seen: dict[str, int]
    points: np.ndarray
    models: list[int]


class Solver:
    """The stages of one capture, whose work is in `folder` and whose pictures are in `images`."""

    def __init__(self, folder: Path, images: Path, pictures: Sequence[Picture], bar: Any) -> None:
        """`bar(name, total)` gives a progress bar."""
        self.folder, self.pictures, self._bar = folder, pictures, bar
        self._plan: dict[str, Any] = {
            "images": str(images.resolve()),
            "lenses": _lenses(pictures),
            "focal_guess": FOCAL_GUESS,
            "fewest": FEWEST,
            "pairs": [],
        }

    def solve(self, matching: str) -> Structure:
        """The cameras of the pictures; `matching` is as in `capture_scene`, but not `auto`.

        Raises InputError if no two pictures fit each other, or a stage fails.
        """
        names = [picture.name for picture in self.pictures]
        self.run("features", len(names))
        if matching != "sequential":
            every = matching == "exhaustive"
            self._match(every_pair(names) if every else in_sequence(names, LONG_WINDOW))
            return self._map()
        pairs = in_sequence(names)
        self._match(pairs)
        first = self._map()
        more = in_space(_poses(first), _reach(first, names), pairs)
        if not more:
            return first
        self._match(more)
        second = self._map()
        return second if len(second.seen) >= len(first.seen) else first

    def _match(self, pairs: Pairs) -> None:
        self._plan["pairs"] = pairs
        self.run("matches", len(pairs))

    def _map(self) -> Structure:
        self.run("mapping", len(self.pictures))
        summary = read_json(self.folder / "sparse" / "summary.json")
        if not summary["models"]:
            raise InputError(
                f"no two of the {len(self.pictures)} pictures show the same things from two "
                "places: walk around what you film, slowly and in good light, and keep most of a "
                "picture in the next one"
            )
        model = read_model(self.folder / "sparse")
        points = np.array(summary["points"], np.float64).reshape(-1, 8)
        return Structure(model, summary["error"], summary["seen"], points, summary["models"])

    def run(self, stage: str, total: int) -> None:
        """Run a stage to its end. Raises InputError with COLMAP's last words if it fails.

        An interruption ends it; what it has done is kept, and a later run goes on from there.
        """
        write_json(self.folder / "plan.json", self._plan)
        # By its path, since the package would take a second to import, and is not needed.
        command = [sys.executable, "-P", colmap_process.__file__, stage, str(self.folder)]
        words = self.folder / f"{stage}.log"
        with words.open("w", encoding="utf-8") as told, self._bar(stage, total) as bar:
            # In its own process group, so that Ctrl-C reaches only us; we then end it.
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=told, text=True, process_group=0
            )
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    if line.strip().isdigit():
                        bar.update(int(line))
                code = process.wait()
            finally:
                process.kill()
                process.communicate()
        if code != 0:
            raise _failure(stage, words, code)


def _lenses(pictures: Sequence[Picture]) -> list[dict[str, Any]]:
    """Pictures of one size and focal length have one lens, with OPENCV's parameters if known."""

    def kind(picture: Picture) -> tuple[int, int, int]:
        return picture.width, picture.height, round(picture.focal)

    lenses = []
    for (width, height, focal), some in groupby(sorted(pictures, key=kind), kind):
        known = [focal, focal, width / 2, height / 2, 0, 0, 0, 0] if focal else []
        lenses.append({"pictures": sorted(each.name for each in some), "parameters": known})
    return lenses


def _poses(structure: Structure) -> dict[str, Any]:
    return {image.name: camera_to_file(image) for image in structure.model.images}


def _reach(structure: Structure, names: Sequence[str]) -> float:
    """A length in the model's unit: how far a camera gets within a window of frames."""
    poses = _poses(structure)
    eyes = [poses[name][:, 3] for name in names if name in poses]
    steps = np.linalg.norm(np.diff(eyes, axis=0), axis=1) if len(eyes) > 1 else np.zeros(1)
    return float(10.0 * np.median(steps))


def _failure(stage: str, words: Path, code: int) -> InputError:
    with words.open(encoding="utf-8", errors="replace") as lines:
        last = [line.strip() for line in deque(lines, 40) if line.strip()]
    if any(each in line for each in FULL for line in last):
        return InputError(
            f"{words.parent} has no more room: make some, and the same command goes on"
        )
    told = last[-1] if last else "nothing"
    return InputError(
        f"COLMAP's stage {stage} ended with code {code}: {told} ({words} has all that it said)"
    )
