"""`film`: takes of a run, rendered to a video or to numbered files."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from tqdm.auto import tqdm

from nerfmac.common.checks import InputError
from nerfmac.common.files import user_path
from nerfmac.film import series
from nerfmac.film.background import in_background
from nerfmac.film.frames import Joined, Pixels
from nerfmac.film.shot import Shot
from nerfmac.film.takes import Take
from nerfmac.film.video import VIDEOS, check_video, write_video
from nerfmac.geometry.cameras import Camera
from nerfmac.run import Run

log = logging.getLogger("nerfmac")

Item = TypeVar("Item")


def film(
    run: Run | Sequence[Run],
    cameras: Sequence[Camera | Take],
    out: Path | str,
    shot: Shot = Shot(),  # noqa: B008 - a frozen value
    *,
    fps: float = 24.0,
    form: str = "png",
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
) -> None:
    """Render what `cameras` see, a frame each, to `out`.

    Args:
        run: what is rendered, as it is now; several runs of one scene stand side by side.
        cameras: one for each frame, all of one size; or several, at the moments of a blurred one.
        out: a video's name, ending in .mp4, .webm or .gif, or a folder for numbered files.
        shot: what is shown and how.
        fps: a video's frames per second.
        form: `png`, `exr` or `npz`: what the files in a folder are (`film.series`).
        resume: go on with what is left of an interrupted film. A video's frames are then kept in a
            folder beside it, OUT.frames, until it is complete.
        overwrite: replace what `out` names.
        progress: show a bar.

    Raises `InputError` before anything is rendered or written if `out` exists already, cannot be
    written, is a video with a transparent background, or if there are no cameras.
    """
    out = user_path(out)
    series.check_format(form)
    takes = [[each] if isinstance(each, Camera) else each for each in cameras]
    if not takes:
        raise InputError(f"there are no frames to render to {out}")
    is_video = out.suffix.lower() in VIDEOS
    if is_video:
        check_video(out, fps)
        if shot.background is None:
            raise InputError(
                f"{out} is a video, and these are not transparent: name a folder for PNG or EXR "
                "files, or a background such as white"
            )
        if shot.projection == "equirectangular" and out.suffix.lower() != ".mp4":
            log.warning("%s does not tell players that it is all around; an .mp4 does", out)
    refuse_existing(out, resume=resume, overwrite=overwrite)
    runs = [run] if isinstance(run, Run) else run
    frames = Joined(runs, shot)
    if form != "png" and len(frames.frames) > 1:
        raise InputError(f"{form} files are of one run and one eye; several make pictures only")
    made_by = _made_by(runs, takes, shot, form)
    if is_video and resume:
        kept = out.with_name(f"{out.name}.frames")
        series.begin(kept, made_by, resume=True)
        pictures = series.resumed(kept, len(takes), _of(frames, takes))
        write_video(out, _bar(pictures, len(takes), progress), fps, shot.projection, shot.stereo)
        shutil.rmtree(kept)
    elif is_video:
        pictures = frames.pictures(takes)
        write_video(out, _bar(pictures, len(takes), progress), fps, shot.projection, shot.stereo)
    else:
        if overwrite and not resume:
            _remove_series(out)
        series.begin(out, made_by, resume=resume)
        _write_files(out, frames, takes, form, progress)


def refuse_existing(out: Path, *, resume: bool, overwrite: bool) -> None:
    """Raise `InputError` if a film `out` would replace something."""
    if overwrite:
        return
    expected = "name another, or replace it with --overwrite"
    if out.suffix.lower() in VIDEOS:
        if out.exists():
            raise InputError(f"{out} exists already; {expected}")
    elif out.is_file():
        raise InputError(f"{out} is a file; expected a video's name or a folder")
    elif out.is_dir() and any(out.glob("frame_*.*")) and not resume:
        raise InputError(f"{out} already holds frames; {expected}, or go on with --resume")


def _remove_series(folder: Path) -> None:
    if folder.is_dir():
        for path in [*folder.glob("frame_*.*"), *folder.glob(series.RECORD)]:
            path.unlink()


def _made_by(runs: Sequence[Run], takes: Sequence[Take], shot: Shot, form: str) -> dict[str, Any]:
    """What the frames depend on, as JSON values."""
    digest = sha256()
    for take in takes:
        for camera in take:
            digest.update(camera.pose.tobytes())
            digest.update(repr(camera.lens).encode())
    states = [{"step": run.state.step, "seconds": run.state.train_seconds} for run in runs]
    values = {name: _plain(value) for name, value in asdict(shot).items()}
    return {"format": form, **values, "path": digest.hexdigest(), "run": states}


def _plain(value: Any) -> Any:
    """`value` as JSON gives it back: lists for tuples."""
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _of(frames: Joined, takes: Sequence[Take]) -> Callable[[Sequence[int]], Iterator[Pixels]]:
    return lambda numbers: frames.pictures(takes, numbers)


def _write_files(
    folder: Path, frames: Joined, takes: Sequence[Take], form: str, progress: bool
) -> None:
    """Write the files that are not there yet."""
    numbers = series.missing(folder, len(takes), form)
    first = frames.frames[0]

    def save(item: tuple[int, Any]) -> None:
        number, frame = item
        path = series.name_of(folder, number, form)
        if form == "png":
            series.save_png(path, frame)
        elif form == "exr":
            series.save_exr(path, first.shot, frame)
        else:
            series.save_npz(path, first.shot.output, frame, takes[number][0])

    rendered: Iterator[Any] = (
        frames.pictures(takes, numbers) if form == "png" else first.values(takes, numbers)
    )
    with in_background(save) as give:
        for item in zip(numbers, _bar(rendered, len(takes), progress, len(numbers)), strict=True):
            give(item)


def _bar(
    items: Iterator[Item], total: int, progress: bool, left: int | None = None
) -> Iterator[Item]:
    """`items` with a bar, which says how many frames are done and how much time is left."""
    done = 0 if left is None else total - left
    yield from tqdm(items, "frames", total, initial=done, unit="frame", disable=not progress)
