"""Structure from motion in stages. Each stage runs in a separate process and can be interrupted and
resumed."""

import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property
from itertools import combinations, groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nerfmac.app.capture import colmap_process, focal, pairs
from nerfmac.app.capture.contradictions import opposing_pairs
from nerfmac.app.capture.findings import CONTRADICTIONS, Evidence, RefusedError, Verdict
from nerfmac.app.capture.inputs import CapturedImage, advice
from nerfmac.app.capture.two_views import Matches, Pair, read_features, read_matches
from nerfmac.app.capture.verdict import judge, turned
from nerfmac.app.capture.video import child_process
from nerfmac.app.scenes.masks import FOLDERS
from nerfmac.app.scenes.readers.colmap_model import ColmapModel, read_model
from nerfmac.common import InputError, appearing, duration, log, make_folder, read_json, write_json

MIN_CAMERAS = 3  # Minimum number of cameras in a model, and of images in a trial.
MISSING = 0.95
"""If cameras are found for less than this fraction of the images, `auto` matches more pairs."""
DATABASE = "database.db"
REPAIR_WINDOWS = (3, 2, 4)
"""Numbers of next images whose matches are tried if the cameras contradict the order of capture.
Images that are farther apart may show two sides that look alike."""
AS_GOOD = 1.1
"""Maximum reprojection error with the focal lengths from EXIF, relative to the error with optimized
ones, if the images do not determine the focal lengths."""
MIN_REPAIRED = 0.5
"""Minimum fraction of the images that must have a camera after cameras are estimated again."""
FULL = ("No space left", "disk is full", "disk I/O error", "File too large", "Disk quota")
"""Phrases in COLMAP's log that indicate a full disk."""
ROOM = 2**20
"""Free disk space in bytes below which the disk counts as full. The log may then be incomplete."""
STEPS = {
    "frames": "selecting frames",
    "images": "writing images",
    "features": "extracting features",
    "matches": "matching",
    "mapping": "estimating cameras",
}
"""Text of the progress bar of each stage, in order. The first stage exists only for videos."""


Images = Sequence[CapturedImage]


class NoCamerasError(RefusedError):
    """Exception that is raised if structure from motion finds no cameras."""


class Structure(NamedTuple):
    """Result of structure from motion: the model with the most images, and its statistics."""

    model: ColmapModel
    error: float  # Mean reprojection error in pixels.
    points: np.ndarray  # (n, 8) x, y, z, red, green, blue, error, number of observing images.
    models: list[int]  # Number of images in each model that COLMAP created.
    matching: str  # Choice of pairs, as in `capture_scene`.
    verdict: Verdict
    folder: Path  # Folder of COLMAP's files.
    trial: focal.Trial | None = None  # Chosen focal length trial, if EXIF contains no focal length.
    # Final focal length of the images without EXIF, relative to the longer side.
    focal: float = 0.0
    tried: tuple[str, ...] = ()  # Descriptions of what was tried to repair wrong cameras.

    @property
    def trusted(self) -> int:
        """Number of images with trusted cameras, or 0 if the verdict refuses the cameras."""
        return 0 if self.verdict.is_refused else len(self.model.images)


class Solver:
    """Structure from motion for the images of a capture, resumable from a working folder."""

    def __init__(
        self, folder: Path, image_folder: Path, images: Images, bar: Any, *, is_video: bool = False
    ) -> None:
        """Create the solver. Masks, if any, are in the folder `masks` next to the image folder.
        `bar(name, total)` creates a progress bar. The frames of a video are always in the order of
        capture, while the order of photos is deduced from their matches."""
        self.folder, self.images = folder, images
        self._bar, self._is_video = bar, is_video
        self._names = [image.name for image in images]
        masks = image_folder.with_name(FOLDERS[0])
        self._plan: dict[str, Any] = {
            "names": self._names,
            "images": str(image_folder.resolve()),
            "masks": str(masks.resolve()) if masks.is_dir() else "",
            "lenses": _lenses(images),
            "focal_guess": focal.TYPICAL,
            "fewest": MIN_CAMERAS,
            **{"only": [], "kept": None, "mapper": "incremental", "held": False},
        }
        self._trial: focal.Trial | None = None
        self._is_mapping = False  # Whether the last step, estimating cameras, has begun.
        self._seconds_per_pair: float | None = None  # Measured by the last call of `_match`.

    def solve(self, matching: str) -> Structure:
        """Estimate the cameras. `matching` specifies the pairs to match, as in `capture_scene`.

        If the cameras contradict the order of capture, they are estimated again from fewer pairs.
        """
        self.run("features", len(self._names))
        try:
            if matching in ("exhaustive", "similar"):
                structure = self._solve_unordered(matching)
            else:
                self._match(pairs.in_sequence(self._names))
                structure = self._solve_auto() if matching == "auto" else self._solve_in_order()
            if structure.trial is not None and not structure.verdict.is_refused:
                focal.check_focal(structure.trial, structure.focal, structure.error)
        except (NoCamerasError, focal.UnknownFocalError) as error:
            # Without parallax, neither cameras nor focal lengths can be found.
            if not (in_place := turned(self._matches, self.images)):
                raise
            raise RefusedError(in_place[0].line) from error
        if structure.verdict.is_refused:
            structure = self._repaired(structure)
        return structure

    def matches_of(self, chosen: list[Pair]) -> Matches:
        """Return the verified matches of image pairs, without estimating cameras."""
        self.run("features", len(self._names))
        self._match(chosen)
        return self._matches

    def _solve_auto(self) -> Structure:
        """Estimate the cameras with sequential matching or, if this is insufficient, with more
        pairs.

        Sequential matching is sufficient if the name order is the order of capture and nearly all
        images have a camera. If the cameras contradict the order, more pairs would contain more
        wrong matches. Otherwise, the result with more images is returned. The choice is logged.
        """
        reason = "" if self._is_video else pairs.why_no_walk(self._names, self._counts)
        is_walked = not reason
        # If the sequence of matching images is interrupted, sequential matching cannot find all
        # cameras. In this case, sequential matching is used only after the fallback.
        connected, total = pairs.linked(self._names, self._counts), len(self._names)
        is_broken = connected < MISSING * total
        if is_walked and is_broken:
            reason = f"the matches of neighbors connect only {connected} of {total} images"
        ordered = self._if_any() if is_walked and not is_broken else None
        if ordered is not None and (ordered.verdict.is_refused or self._is_whole(ordered)):
            log.info("using sequential matching, because the names follow the order of capture")
            return ordered
        if ordered is not None:
            reason = f"sequential matching found {ordered.trusted} of {total} cameras"
        # The fallback uses another folder, because its matches must not affect a resumed sequential
        # mapping.
        fallback = copy(self)
        fallback.folder = self.folder / "more"
        make_folder(fallback.folder)
        if not (fallback.folder / DATABASE).exists():
            with appearing(fallback.folder / DATABASE) as partial:
                shutil.copyfile(self.folder / DATABASE, partial)
        log.info("matching more pairs, because %s", reason or "sequential matching failed")
        other = fallback._solve_unordered("similar")
        self._trial = fallback._trial
        if is_walked and is_broken and not self._is_whole(other):
            ordered = self._if_any()
        if ordered is None:
            return other
        chosen, rejected = sorted((ordered, other), key=attrgetter("trusted"), reverse=True)
        log.info(
            f"using {chosen.matching} matching: {len(chosen.model.images)} images have a camera, "
            f"compared with {len(rejected.model.images)} for {rejected.matching} matching"
        )
        return chosen

    def _if_any(self) -> Structure | None:
        """Return the result of sequential matching, or None if it fails."""
        with suppress(NoCamerasError, focal.UnknownFocalError):
            return self._solve_in_order()
        return None

    def _is_whole(self, structure: Structure) -> bool:
        """Return whether nearly all images have a trusted camera."""
        return structure.trusted >= MISSING * len(self.images)

    def _repaired(self, refused: Structure) -> Structure:
        """Estimate cameras that contradict the order of capture again, and return the best result.

        Global mapping estimates the viewing directions from the matches of the next few images
        only. Incremental mapping then uses all pairs except those that match although their cameras
        look in opposing directions.
        """
        if not any(finding.kind in CONTRADICTIONS for finding in refused.verdict.findings):
            return refused
        found, tried = [refused], []
        for window in REPAIR_WINDOWS:
            near = {pairs.sorted_pair(*pair) for pair in pairs.in_sequence(self._names, window)}
            with suppress(NoCamerasError):
                tried.append(f"matches of the next {window} images only")
                draft, _ = self._model("draft", sorted(near), mapper="global")
                opposing = opposing_pairs(draft)
                known = {image.name for image in draft.images}
                kept = [
                    pair
                    for pair in self._counts
                    if pair in near or (known.issuperset(pair) and pair not in opposing)
                ]
                found.append(self._map("sequential", f"repaired-{window}", kept))
            if self._is_whole(found[-1]):
                break
        best = max(found, key=attrgetter("trusted"))
        if best.trusted < MIN_REPAIRED * len(self.images):
            best = refused
        return best._replace(tried=tuple(tried))

    def _solve_unordered(self, matching: str) -> Structure:
        if matching == "exhaustive":
            chosen = list(combinations(self._names, 2))
        else:
            shown = "comparing images" if self._is_mapping else "matches"
            features = read_features(self.folder / DATABASE, self._names)
            with self._bar(shown, len(features)) as bar:
                likeness = pairs.similarity([*features.values()], bar)
            chosen = pairs.most_similar([*features], likeness)
        if self._seconds_per_pair is not None:
            about = duration(self._seconds_per_pair * len(chosen))
            log.info("matching up to %d pairs, which takes about %s", len(chosen), about)
        self._match(chosen)
        return self._map(matching)

    def _solve_in_order(self) -> Structure:
        """Estimate the cameras from sequential matches, and then also from nearby cameras."""
        first = self._map("sequential", "first")
        poses = {image.name: image.camera_to_file for image in first.model.images}
        eyes = [poses[name][:, 3] for name in self._names if name in poses]
        steps = np.linalg.norm(np.diff(eyes, axis=0), axis=1) if len(eyes) > 1 else np.zeros(1)
        window_length = float(10.0 * np.median(steps))
        more = pairs.in_space(poses, window_length, pairs.in_sequence(self._names))
        if not more:
            return first
        self._match(more)
        second = self._map("sequential")
        return second if second.trusted >= first.trusted else first

    def _match(self, chosen: list[Pair]) -> None:
        began = time.monotonic()
        # The steps never go back: matching after the first mapping is a part of the last step.
        shown = "matching more images" if self._is_mapping else ""
        self.run("matches", len(chosen), shown, pairs=chosen)
        self._seconds_per_pair = (time.monotonic() - began) / max(len(chosen), 1)
        self.__dict__.pop("_matches", None)

    @cached_property
    def _matches(self) -> Matches:
        return read_matches(self.folder / DATABASE, self._names)

    @property
    def _counts(self) -> pairs.Counts:
        return {pair: len(pixels) for pair, pixels in self._matches.items()}

    @property
    def _is_ordered(self) -> bool:
        return self._is_video or not pairs.why_no_walk(self._names, self._counts)

    def _map(self, matching: str, to: str = "sparse", kept: list[Pair] | None = None) -> Structure:
        """Estimate the cameras with incremental mapping, and judge them."""
        model, summary = self._model(to, kept)
        verdict = judge(Evidence(self.images, self._matches, model, self._is_ordered))
        if any(each.kind == "focal length" for each in verdict.findings) and not self._trial:
            # COLMAP also optimizes known focal lengths. A flat scene does not determine them.
            held, other = self._model(to + "-held", kept, held=True)
            if other["error"] <= AS_GOOD * summary["error"] and len(held.images) >= len(
                model.images
            ):
                model, summary, to = held, other, to + "-held"
                verdict = judge(Evidence(self.images, self._matches, model, self._is_ordered))
        if self._trial and self._trial.doubt:
            verdict = Verdict((*verdict.findings, self._trial.finding))
        return Structure(
            model,
            summary["error"],
            np.array(summary["points"], np.float64).reshape(-1, 8),
            summary["models"],
            matching,
            verdict,
            self.folder / to,
            self._trial,
            summary["lens"][0] if self._trial else 0.0,
        )

    def _model(
        self, to: str, kept: list[Pair] | None, mapper: str = "incremental", *, held: bool = False
    ) -> tuple[ColmapModel, dict[str, Any]]:
        """Estimate the cameras, and return the largest model and its summary. `held` specifies
        that the focal lengths from EXIF are not optimized."""
        if self._trial is None:
            self._trial = self._try_guesses()
        lens = self._trial.lens if self._trial else None
        held = held or bool(self._trial and self._trial.doubt)
        plan = {"model": to, "lens": lens, "kept": kept, "mapper": mapper, "held": held}
        again = "with nearby cameras" if to == "sparse" and (self.folder / "first").is_dir() else ""
        again = "with known focal lengths" if held else again
        again = again if kept is None else "with fewer matches"
        self.run("mapping", len(self.images), again, **plan)
        summary = read_json(self.folder / to / "summary.json")
        if not summary["models"]:
            raise self._no_cameras()
        return read_model(self.folder / to), summary

    def _try_guesses(self) -> focal.Trial | None:
        """Run focal length trials on a few images with unknown focal lengths, and choose the best
        trial, or return None if too few of these images match. `NoCamerasError` is raised if no
        trial finds cameras, and `UnknownFocalError` if the trials contradict each other."""
        unknown = [image.name for image in self.images if not image.focal]
        names = focal.trial_images(unknown, self._counts) if unknown else []
        if len(names) < MIN_CAMERAS:
            return None
        trials: list[focal.Trial] = []
        for guess in focal.GUESSES:
            plan = {"model": "trial", "only": names, "lens": [guess, 0.0, 0.0, 1.0]}
            self.run("mapping", len(names), f"focal length {guess}", **plan)
            summary = read_json(self.folder / "trial" / "summary.json")
            if summary["models"]:
                counts = [summary["error"], summary["observations"], max(summary["models"])]
                trials.append(focal.Trial(guess, *[*summary["lens"], *counts]))
            if focal.is_settled(trials):
                break
        if not trials:
            raise self._no_cameras()
        best = focal.choose_trial(trials)
        log.info(
            f"EXIF contains no focal length; using {best.focal:.2f} of the longer side, which fits "
            f"{best.images} images best among {len(trials)} guesses"
        )
        return best

    def _no_cameras(self) -> NoCamerasError:
        # A trial of the focal length may have found cameras for a few images.
        found, is_video = f"only {self._trial.images}" if self._trial else "no two", self._is_video
        return NoCamerasError(
            f"COLMAP found {found} of the {len(self.images)} images that show the same content "
            f"from clearly different positions: {advice(len(self.images), is_video=is_video)}"
        )

    def run(self, stage: str, total: int, shown: str = "", **plan: Any) -> None:
        """Run a stage in a separate process, with additional keys of its plan. `shown` is the label
        of its progress bar, by default the stage name."""
        self._is_mapping = self._is_mapping or stage == "mapping"
        write_json(self.folder / "plan.json", self._plan | plan)
        with self._bar(shown or stage, total) as bar:
            run_stage(stage, self.folder, bar)


def _lenses(images: Images) -> list[dict[str, Any]]:
    """Return the lenses, one per image size and focal length, with parameters if known."""

    def size_and_focal(image: CapturedImage) -> tuple[int, int, int]:
        return image.width, image.height, round(image.focal)

    lenses = []
    for key, group in groupby(sorted(images, key=size_and_focal), size_and_focal):
        width, height, length = key
        known = [length, width / 2, height / 2, 0, 0] if length else []
        lenses.append({"images": sorted(image.name for image in group), "parameters": known})
    return lenses


def run_stage(stage: str, folder: Path, bar: Any) -> None:
    """Run a stage in a separate process, and update a progress bar.

    An interruption ends this process. If the stage is run again, it resumes from the stored
    results. The message of an error contains the last line of COLMAP's log.
    """
    # The stage is executed as a file, because importing the package would take an additional
    # second.
    command = [sys.executable, "-P", colmap_process.__file__, stage, str(folder)]
    log_path = folder / f"{stage}.log"
    pipe = subprocess.PIPE
    with (
        log_path.open("w", encoding="utf-8") as log_file,
        child_process(command, stdin=pipe, stdout=pipe, stderr=log_file, text=True) as process,
    ):
        for line in process.stdout:
            if line.strip().isdigit():
                bar.update(int(line))
        code = process.wait()
    if code != 0:
        raise _failure(stage, log_path, code)


def _failure(stage: str, log_path: Path, code: int) -> InputError:
    with log_path.open(encoding="utf-8", errors="replace") as lines:
        last = [line.strip() for line in deque(lines, 40) if line.strip()]
    has_room = shutil.disk_usage(log_path.parent).free > ROOM
    if not has_room or any(message in line for message in FULL for line in last):
        return InputError(
            f"the disk of {log_path.parent} is full; free some space and run the command again"
        )
    reason = last[-1] if last else "no message"
    return InputError(f"COLMAP's stage {stage} failed with code {code}: {reason}; log: {log_path}")


def step_name(stage: str, *, of_video: bool) -> str:
    """Return the progress label of a stage, such as "3 of 4: matching". Stages that are not in
    `STEPS`, such as focal length trials, have the last number."""
    names = list(STEPS)[0 if of_video else 1 :]
    number = names.index(stage) + 1 if stage in names else len(names)
    return f"{number} of {len(names)}: {STEPS.get(stage, f'{STEPS[names[-1]]}, {stage}')}"
