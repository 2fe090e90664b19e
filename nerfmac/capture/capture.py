"""`capture_scene`: a video or a folder of photographs in, a scene with its cameras out."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from nerfmac.capture.libraries import need_pycolmap
from nerfmac.capture.material import (
    LEAST_35MM,
    MOST_35MM,
    Picture,
    choose_frames,
    focal_in_pixels,
    is_material,
    is_video,
    pictures_in,
    take_frames,
    take_pictures,
)
from nerfmac.capture.missing import missing_pictures
from nerfmac.capture.placed import write_scene
from nerfmac.capture.structure import Solver, Structure
from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.common.files import check_free, make_folder, read_json, user_path, write_json
from nerfmac.scenes import holds_scene, load_scene
from nerfmac.scenes.diagram import draw_scene
from nerfmac.scenes.pictures import is_cut_out
from nerfmac.scenes.readers.transforms import FILE_NAME
from nerfmac.scenes.record import refuse_run

HOME = Path("captures")
"""Where captured scenes go, in the working folder, if nothing else is said."""
RECORD, WORK = "capture.json", "capture"
MATCHING = ("auto", "sequential", "exhaustive", "window")
FEWEST = 3
"""Pictures that a capture takes at least."""
TOO_FEW = 1 / 3
"""A capture fails if fewer of its pictures than this part get a camera."""
FOLDED = 2
"""A fold tears so many pairs of neighbours at least; one may be a stray camera."""

log = logging.getLogger("nerfmac")


def captured(path: Path) -> Path:
    """The scene at `path`: itself, or what `capture_scene` makes of a video or of photographs."""
    path = path.expanduser()
    refuse_run(path)
    if holds_scene(path) or not is_material(path):
        return path
    out = HOME / path.resolve().stem
    kind = "a video" if is_video(path) else "a folder of photographs alone"
    log.warning("%s is %s: its cameras are looked for, and the scene goes to %s", path, kind, out)
    return capture_scene(path, out)


def capture_scene(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    longest_side: int = 1920,
    frames: int | None = None,
    matching: str = "auto",
    focal_35mm: float | None = None,
    progress: bool = True,
) -> Path:
    """Find where the cameras of a video or of photographs stood; returns the scene's folder.

    Args:
        source: a video, or a folder of photographs.
        out: the scene's folder; by default captures/NAME in the working folder. It gets `images`,
            `transforms.json`, `points.ply`, `cameras.png`, `capture.json` with what came of it, and
            COLMAP's model in `sparse/0`.
        longest_side: pixels of the pictures' longer side, at most; larger ones are reduced.
        frames: of a video, about how many to take; by default as many as its motion asks for.
        matching: `sequential` compares each picture with those that follow it and, once the cameras
            are known, with those that stand nearby; `exhaustive` each with each; `window` with the
            40 that follow it. `auto` is the first for a video; for photographs too, if it finds the
            cameras of nearly all and they agree with the order of names, and else the second for
            fewer than 100, the third for more: whichever has more cameras that agree.
        focal_35mm: focal length of every picture in millimetres as on 35 mm film, in place of what
            EXIF says. By default EXIF's; where it names none, several guesses are tried on a few
            pictures.
        progress: show a bar for each stage.

    A capture that was interrupted goes on where it was, as the interruption says, and one that is
    done is not done again.

    Raises InputError without pycolmap, for a source or an `out` that cannot serve, if too few of
    the pictures get a camera, and if the cameras are probably wrong: EXIF names no focal length and
    the pictures do not tell it, or `auto` finds only cameras that contradict the order of names.
    The message says what to do.
    """
    source = user_path(source)
    _check(source, longest_side, frames, matching, focal_35mm)
    need_pycolmap()
    folder = user_path(out) if out is not None else HOME / source.resolve().stem
    asked = {
        "source": str(source.resolve()),
        "longest_side": int(longest_side),
        "frames": frames,
        "matching": matching,
        "focal_35mm": focal_35mm,
    }
    if _is_done(folder, asked):
        log.info("%s holds this capture already", folder)
        return folder

    def bar(name: str, total: int | None) -> Any:
        return tqdm(total=total, desc=name, disable=not progress)

    try:
        pictures = _material(source, folder, asked, bar)
        if matching == "auto" and is_video(source):
            matching = "sequential"
        structure = Solver(folder / WORK, folder / "images", pictures, bar).solve(matching)
    except KeyboardInterrupt as interruption:
        done = f"what is done is in {folder}, and the same command goes on"
        raise KeyboardInterrupt(done if folder.exists() else "nothing is kept") from interruption
    _finish(folder, asked, pictures, structure)
    return folder


def _check(
    source: Path, longest_side: int, frames: int | None, matching: str, focal_35mm: float | None
) -> None:
    """Raise InputError for arguments of `capture_scene` that cannot be."""
    checks.number("longest_side", longest_side, low=64, whole=True)
    checks.choice("matching", matching, MATCHING)
    if frames is not None:
        checks.number("frames", frames, low=FEWEST, whole=True)
    refuse_run(source)
    if source.is_dir() and holds_scene(source):
        raise InputError(
            f"{source} is a scene, whose cameras are known: `nerfmac train {source}` trains on it; "
            "to find them anew, name a folder that holds its pictures alone"
        )
    if focal_35mm is not None:
        checks.number("focal_35mm", focal_35mm, low=LEAST_35MM, high=MOST_35MM)
    if not is_material(source):
        expected = "a video, or a folder of photographs"
        state = (
            "holds none" if source.is_dir() else "is neither" if source.exists() else "is absent"
        )
        raise InputError(f"{source} {state}; expected {expected}")


def _is_done(folder: Path, asked: dict[str, Any]) -> bool:
    """Whether `folder` has the scene that is `asked` for; raises InputError if it has another."""
    record = folder / RECORD
    if not record.is_file():
        check_free(folder)
        return False
    known = read_json(record)
    if any(known.get(key) != value for key, value in asked.items()):
        raise InputError(
            f"{folder} holds a capture of {known.get('source')} with other options; name another "
            "folder with --out, or remove this one"
        )
    return (folder / FILE_NAME).is_file() and "registered" in known


def _material(source: Path, folder: Path, asked: dict[str, Any], bar: Any) -> list[Picture]:
    """The capture's pictures in `images`, as they are or made now. Raises InputError if too few."""
    taken = folder / WORK / "pictures.json"
    if taken.is_file():
        return [Picture(**each) for each in read_json(taken)]
    paths = [] if is_video(source) else pictures_in(source)
    if paths and len(paths) < FEWEST:
        raise InputError(
            f"{source} has {len(paths)} picture{'s'[: len(paths) > 1]}; where cameras stood can be "
            "told from three that overlap, and a scene wants 30 or more from all sides"
        )
    numbers = []
    if not paths:
        with bar("frames", None) as counting:
            numbers = choose_frames(source, asked["frames"], counting)
    make_folder(folder / WORK)
    make_folder(folder / "images")
    write_json(folder / RECORD, asked)
    to = folder / "images", asked["longest_side"]
    with bar("pictures", None) as counting:
        if paths:
            pictures = take_pictures(paths, *to, counting)
        else:
            pictures = take_frames(source, numbers, *to, counting)
    if millimetres := asked["focal_35mm"]:
        pictures = [
            each._replace(focal=focal_in_pixels(millimetres, each.width, each.height))
            for each in pictures
        ]
    if len(pictures) < FEWEST:
        raise InputError(f"{source} gives {len(pictures)} pictures; expected {FEWEST} or more")
    write_json(taken, [picture._asdict() for picture in pictures])
    return pictures


def _finish(
    folder: Path, asked: dict[str, Any], pictures: Sequence[Picture], structure: Structure
) -> None:
    """Write the scene and its report, and remove what only a resumed capture would need."""
    given, found = len(pictures), len(structure.model.images)
    if found < max(FEWEST, TOO_FEW * given):
        raise InputError(
            f"only {found} of {given} pictures overlap: film more slowly or take more pictures, "
            "keep most of each in the next, walk around rather than turn on the spot, and avoid "
            "bare walls, glass and blur"
        )
    names = [picture.name for picture in pictures]
    with_camera = {image.name for image in structure.model.images}
    missing = missing_pictures(folder / "images", names, with_camera)
    _tell_folds(structure, asked["matching"])
    some = pictures[:: max(given // 3, 1)]
    is_object = any(is_cut_out(folder / "images" / picture.name) for picture in some)
    write_scene(folder, structure, is_object=is_object)
    scene = load_scene(folder, split=0)
    draw_scene(folder / "cameras.png", scene)
    make_folder(folder / "sparse" / "0")
    for file in structure.folder.glob("*.bin"):
        shutil.copyfile(file, folder / "sparse" / "0" / file.name)
    result = {
        "given": given,
        "registered": found,
        "without_camera": missing,
        "mean_reprojection_error": structure.error,
        "points": 0 if scene.points is None else len(scene.points),
        "fewest_points_of_a_picture": int(np.min(list(structure.seen.values()))),
        "pictures_of_each_model": structure.models,
        "matched": structure.matching,
        "torn": structure.agreement.torn,
        "focal_trial": structure.trial and structure.trial._asdict(),
        "aabb_scale": scene.extent,
    }
    write_json(folder / RECORD, asked | result)
    shutil.rmtree(folder / WORK)
    log.info(
        "%d of %d pictures have a camera; points are off by %.2f pixels in the mean; cameras.png "
        "in %s shows them",
        *(found, given, structure.error, folder),
    )


def _tell_folds(structure: Structure, asked: str) -> None:
    """Say in a line if cameras are torn apart that are near in the pictures' order.

    Raises InputError for several if no `matching` but auto was asked for: part of the cameras stand
    on the wrong side.
    """
    torn = structure.agreement.torn
    if not torn:
        return
    one, other, degrees = max(torn, key=lambda pair: pair[2])
    said = (
        f"{one} and {other} show the same, but their cameras look {degrees:.0f} degrees apart, and "
        f"{len(torn)} such pairs are torn: what looks the same from two sides may be folded"
    )
    again = "take it again with more of what surrounds it in the pictures"
    kept = f"--matching {structure.matching} --out FOLDER keeps this one with a warning"
    ordered = "--matching sequential may do better where names are in the order of a walk"
    if asked == "auto" and len(torn) >= FOLDED:
        raise InputError(f"{said}; {again}, in smaller steps; {kept}")
    log.warning("%s; %s", said, again if structure.matching == "sequential" else ordered)
