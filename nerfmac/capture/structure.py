"""Structure from motion, stage by stage: each in a process of its own, with a bar, and resumed."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nerfmac.capture import colmap_process
from nerfmac.capture.agreement import Agreement, agreement, is_walk, linked
from nerfmac.capture.focal import (
    GUESSES,
    Trial,
    UnknownFocalError,
    check_focal,
    choose_trial,
    is_settled,
    trial_pictures,
)
from nerfmac.capture.material import Picture
from nerfmac.capture.pairs import LONG_WINDOW, Pairs, every_pair, in_sequence, in_space
from nerfmac.common.checks import InputError
from nerfmac.common.files import appearing, make_folder, read_json, write_json
from nerfmac.scenes.readers.colmap import camera_to_file
from nerfmac.scenes.readers.colmap_model import ColmapModel, read_model

FOCAL_GUESS = 0.85
"""The focal length of an unknown lens that could not be tried, in longer sides of the picture: that
of phones."""
FEWEST = 3
"""Cameras of a model that is kept."""
MISSING = 0.95
"""Too many pictures are without a camera if fewer than this part have one."""
ALL_BELOW = 100
"""Fewer photographs than this are compared each with each, if their order is no help."""
DATABASE = "database.db"
FULL = ("No space left", "disk is full", "disk I/O error", "File too large", "Disk quota")
"""What COLMAP's log has where its files have no room."""
ROOM = 2**20
"""Bytes that have to be free: with fewer, not even the log says why a stage ended."""

log = logging.getLogger("nerfmac")


class NoCamerasError(InputError):
    """No camera can be found."""


class Structure(NamedTuple):
    """The model with most of the pictures, and what is known of it beside its cameras.

    `error` is the mean reprojection error in pixels, `seen` how many points each picture has,
    `points` (n, 8) are x, y, z, red, green, blue, error and how many pictures see it, and `models`
    how many pictures each model has, this one and those that fit nowhere. `matching` is how
    pictures were compared, `agreement` how far the cameras keep the pictures' order, and the files
    are in `folder`. `trial` is what mapping started from where EXIF names no focal length, and
    `focal` that lens's focal length in the model, in longer sides.
    """

    model: ColmapModel
    error: float
    seen: dict[str, int]
    points: np.ndarray
    models: list[int]
    matching: str
    agreement: Agreement
    folder: Path
    trial: Trial | None = None
    focal: float = 0.0


class Solver:
    """The stages of one capture, whose work is in `folder` and whose pictures are in `images`."""

    def __init__(self, folder: Path, images: Path, pictures: Sequence[Picture], bar: Any) -> None:
        """`bar(name, total)` gives a progress bar."""
        self.folder, self.pictures = folder, pictures
        self._images, self._bar = images, bar
        self._plan: dict[str, Any] = {
            "images": str(images.resolve()),
            "lenses": _lenses(pictures),
            "focal_guess": FOCAL_GUESS,
            "fewest": FEWEST,
            "pairs": [],
            "only": [],
            "lens": None,
        }
        self._trial: Trial | None = None

    def solve(self, matching: str) -> Structure:
        """The cameras of the pictures; `matching` is as in `capture_scene`.

        Raises InputError if no two pictures fit each other, a stage fails, or the focal length is
        unknown and the pictures do not tell it.
        """
        names = [picture.name for picture in self.pictures]
        self.run("features", len(names))
        structure = self._compared(names, matching)
        if structure.trial is not None:
            check_focal(structure.trial, structure.focal, structure.error)
        return structure

    def _compared(self, names: Sequence[str], matching: str) -> Structure:
        if matching == "auto":
            return self._ordered_or_not(names)
        if matching == "sequential":
            self._match(in_sequence(names))
            return self._in_order(names)
        return self._in_any_order(names, matching)

    def _ordered_or_not(self, names: Sequence[str]) -> Structure:
        """By the order of names if it is a walk and all agrees with it, else by more pairs too.

        Of both it is then what has more pictures that agree. Says in a line what was chosen.
        """
        self._match(in_sequence(names))
        matches = self._matches()
        is_walked = is_walk(names, matches)
        # A walk that is broken off somewhere cannot come out whole by its order: that comes last.
        is_broken = linked(names, matches) < MISSING * len(names)
        ordered = self._if_any(names) if is_walked and not is_broken else None
        if ordered is not None and self._is_whole(ordered):
            log.info("matching is sequential: by their names the pictures are one walk")
            return ordered
        # In a folder of its own: what is resumed must not see the other's matches.
        more = Solver(self.folder / "more", self._images, self.pictures, self._bar)
        make_folder(more.folder)
        if not (more.folder / DATABASE).exists():
            with appearing(more.folder / DATABASE) as partial:
                shutil.copyfile(self.folder / DATABASE, partial)
        matching = "exhaustive" if len(names) < ALL_BELOW else "window"
        more._trial = self._trial
        other = more._in_any_order(names, matching)
        self._trial = more._trial
        if is_walked and is_broken and not self._is_whole(other):
            ordered = self._if_any(names)
        if ordered is None:
            log.info("matching is %s: the order of the names is no help", matching)
            return other
        chosen, left = sorted((ordered, other), key=_agreeing, reverse=True)
        log.info(
            "matching is %s: the cameras of %d pictures agree with their order, of %d if it is %s",
            *(chosen.matching, _agreeing(chosen), _agreeing(left), left.matching),
        )
        return chosen

    def _if_any(self, names: Sequence[str]) -> Structure | None:
        """What the order of names gives, if any cameras."""
        with suppress(NoCamerasError, UnknownFocalError):
            return self._in_order(names)
        return None

    def _is_whole(self, structure: Structure) -> bool:
        """Whether nearly all pictures have a camera, and none is torn from the rest."""
        found = len(structure.model.images)
        return found >= MISSING * len(self.pictures) and not structure.agreement.torn

    def _in_any_order(self, names: Sequence[str], matching: str) -> Structure:
        every = matching == "exhaustive"
        self._match(every_pair(names) if every else in_sequence(names, LONG_WINDOW))
        return self._map(matching)

    def _in_order(self, names: Sequence[str]) -> Structure:
        """By the order of `names`, whose pairs are matched, and then by where cameras stand."""
        first = self._map("sequential", "first")
        more = in_space(_poses(first.model), _reach(first, names), in_sequence(names))
        if not more:
            return first
        self._match(more)
        second = self._map("sequential")
        return second if _agreeing(second) >= _agreeing(first) else first

    def _match(self, pairs: Pairs) -> None:
        self._plan["pairs"] = pairs
        self.run("matches", len(pairs))

    def _matches(self) -> dict[tuple[str, str], int]:
        found = read_json(self.folder / "matches.json")
        return {(one, other): count for one, other, count in found}

    def _map(self, matching: str, to: str = "sparse") -> Structure:
        if self._trial is None:
            self._trial = self._try_guesses()
        lens = [self._trial.focal, self._trial.k1, self._trial.k2] if self._trial else None
        self._plan |= {"model": to, "only": [], "lens": lens}
        self.run("mapping", len(self.pictures))
        folder, names = self.folder / to, [picture.name for picture in self.pictures]
        summary = read_json(folder / "summary.json")
        if not summary["models"]:
            raise self._no_cameras()
        model = read_model(folder)
        points = np.array(summary["points"], np.float64).reshape(-1, 8)
        kept = agreement(names, _poses(model), self._matches())
        found = summary["error"], summary["seen"], points, summary["models"]
        focal = summary["lens"][0] if lens else 0.0
        return Structure(model, *found, matching, kept, folder, self._trial, focal)

    def _try_guesses(self) -> Trial | None:
        """Map a few pictures of unknown focal length with each guess, and choose one.

        None if there are too few of them. Raises NoCamerasError or UnknownFocalError if no guess
        gives cameras, or several do equally well.
        """
        unknown = [picture.name for picture in self.pictures if not picture.focal]
        some = trial_pictures(unknown, self._matches()) if unknown else []
        if len(some) < FEWEST:
            return None
        trials: list[Trial] = []
        for guess in GUESSES:
            self._plan |= {"model": "trial", "only": some, "lens": [guess, 0.0, 0.0]}
            self.run("mapping", len(some), f"focal length {guess}")
            summary = read_json(self.folder / "trial" / "summary.json")
            if summary["models"]:
                error, observations = summary["error"], summary["observations"]
                focal, k1, k2 = summary["lens"]
                fit = error, observations, len(summary["seen"])
                trials.append(Trial(guess, focal, k1, k2, *fit))
            if is_settled(trials):
                break
        if not trials:
            raise self._no_cameras()
        best = choose_trial(trials)
        log.info(
            "EXIF names no focal length: %.2f of the longer side fits %d pictures, tried from %d "
            "guesses",
            *(best.focal, best.pictures, len(trials)),
        )
        return best

    def _no_cameras(self) -> NoCamerasError:
        return NoCamerasError(
            f"no two of the {len(self.pictures)} pictures show the same things from two "
            "places: walk around what you film, slowly and in good light, and keep most of a "
            "picture in the next one"
        )

    def run(self, stage: str, total: int, shown: str = "") -> None:
        """Run a stage to its end, with a bar named `shown`, or after the stage.

        Raises InputError with COLMAP's last words if it fails. An interruption ends it; what it has
        done is kept, and a later run goes on from there.
        """
        write_json(self.folder / "plan.json", self._plan)
        # By its path, since the package would take a second to import, and is not needed.
        command = [sys.executable, "-P", colmap_process.__file__, stage, str(self.folder)]
        words = self.folder / f"{stage}.log"
        with words.open("w", encoding="utf-8") as told, self._bar(shown or stage, total) as bar:
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
    """Pictures of one size and focal length have one lens, with RADIAL's parameters if known."""

    def kind(picture: Picture) -> tuple[int, int, int]:
        return picture.width, picture.height, round(picture.focal)

    lenses = []
    for (width, height, focal), some in groupby(sorted(pictures, key=kind), kind):
        known = [focal, width / 2, height / 2, 0, 0] if focal else []
        lenses.append({"pictures": sorted(each.name for each in some), "parameters": known})
    return lenses


def _poses(model: ColmapModel) -> dict[str, Any]:
    return {image.name: camera_to_file(image) for image in model.images}


def _agreeing(structure: Structure) -> int:
    return structure.agreement.agreeing


def _reach(structure: Structure, names: Sequence[str]) -> float:
    """A length in the model's unit: how far a camera gets within a window of frames."""
    poses = _poses(structure.model)
    eyes = [poses[name][:, 3] for name in names if name in poses]
    steps = np.linalg.norm(np.diff(eyes, axis=0), axis=1) if len(eyes) > 1 else np.zeros(1)
    return float(10.0 * np.median(steps))


def _failure(stage: str, words: Path, code: int) -> InputError:
    with words.open(encoding="utf-8", errors="replace") as lines:
        last = [line.strip() for line in deque(lines, 40) if line.strip()]
    has_room = shutil.disk_usage(words.parent).free > ROOM
    if not has_room or any(each in line for each in FULL for line in last):
        return InputError(
            f"{words.parent} has no more room: make some, and the same command goes on"
        )
    told = last[-1] if last else "nothing"
    return InputError(
        f"COLMAP's stage {stage} ended with code {code}: {told} ({words} has all that it said)"
    )
