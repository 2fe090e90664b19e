"""`ParsedScene`: a scene's files, as a reader returns them; `assemble` makes it a `Scene`."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.app.scenes.images import is_cut_out
from nerfmac.app.scenes.masks import masked
from nerfmac.app.scenes.options import SceneOptions, Split
from nerfmac.app.scenes.orientation import oriented
from nerfmac.app.scenes.placement import fit
from nerfmac.app.scenes.posed_image import PosedImage
from nerfmac.app.scenes.poses import UP, leveling
from nerfmac.app.scenes.scene import Frame, Scene
from nerfmac.common.checks import InputError
from nerfmac.geometry.placement import Direction, Placement
from nerfmac.geometry.tracks import Tracks

TEST_EVERY = 8
"""Every 8th view of a capture is held out, as in Mildenhall et al. 2019 (LLFF) and since."""

Array = npt.NDArray[np.float64]
Frames = tuple[Frame, ...]
Splits = dict[str, Frames]

log = logging.getLogger("nerfmac")


class ParsedScene(NamedTuple):
    """The images, cameras and points of a scene's files, in the coordinates of these files.

    source      the file or folder that messages name
    folder      its name is the scene's
    up          direction to the sky; None if the files' axes are arbitrary, so that `assemble`
                levels the scene
    points      sparse points (n, 3), if the files have any
    placement   the files' own; None: it is fitted to the cameras and points
    splits      indices of `images` by split; None if the files have no splits
    tracks      which pixels of `images` show which sparse point, if the files say
    """

    source: str
    folder: Path
    images: Sequence[PosedImage]
    up: Direction | None = None
    points: Array | None = None
    placement: Placement | None = None
    splits: Mapping[str, Sequence[int]] | None = None
    tracks: Tracks | None = None


def assemble(parsed: ParsedScene, path: Path, options: SceneOptions) -> Scene:
    """Place a `parsed` scene, split it, and apply the `options`; `path` is what the user named.

    Warns of views that are trained and tested on, and of links that lead out of the folder. Raises
    InputError if no view is left to train on, and for a downscale above a image's size.
    """
    read = oriented(parsed.images, parsed.points, parsed.tracks, parsed.source)
    parsed = parsed._replace(images=read)
    placement = parsed.placement or _fitted(parsed, options)
    images = _in_order(parsed)
    if np.linalg.det(images[0].pose[:, :3]) < 0:
        placement = placement.mirrored()
    frames = tuple(image.placed(placement) for image in images)
    if parsed.splits is None and options.split is None:
        options = replace(options, split=TEST_EVERY if len(frames) > 1 else 0)
    splits = _split(parsed, frames, options.split)
    factor, most = int(options.downscale), options.max_images
    splits = {name: _fewer(part, most) for name, part in splits.items()}
    tracks, held_out = _tracks(parsed, images, frames, splits, factor)
    splits = {
        name: tuple(_reduced(frame, factor, options.masks) for frame in part)
        for name, part in splits.items()
    }
    if options.masks:
        splits = masked(splits, parsed.folder)
    name = parsed.folder.resolve().name
    if options.extent not in (None, placement.extent):
        log.info(
            f"the cube of {name} has the side {options.extent:g}, in place of {placement.extent:g}"
        )
        placement = placement._replace(extent=options.extent)
    points = parsed.points
    points = None if points is None or not len(points) else placement.to_scene(points)
    scene = Scene(
        name=name,
        extent=placement.extent,
        splits=splits,
        up=UP if parsed.up is None else placement.turned_to_scene(options.up or parsed.up),
        has_alpha=any(image.header.has_alpha for image in images),
        path=path,
        options=options,
        placement=placement,
        points=points,
        tracks=tracks and tracks.transformed(placement),
        held_out={split: part.transformed(placement) for split, part in held_out.items()},
    )
    _warn_of_shared(scene)
    _warn_of_links(scene, path)
    return scene


def _in_order(parsed: ParsedScene) -> Sequence[PosedImage]:
    """The images by name, the order in which views are held out, unless the files split them."""
    if parsed.splits is not None:
        return parsed.images
    return sorted(parsed.images, key=lambda image: image.name)


def _tracks(
    parsed: ParsedScene,
    images: Sequence[PosedImage],
    frames: Frames,
    splits: Splits,
    factor: int,
) -> tuple[Tracks | None, dict[str, Tracks]]:
    """The tracks for training, and those of the points that are kept out of it, by split.

    `images` and `frames` are all of the scene's in one order. `factor` is the downscale.
    """
    if parsed.tracks is None:
        return None, {}
    frame_of = {id(pic): id(frame) for pic, frame in zip(images, frames, strict=True)}
    in_order = [frame_of[id(image)] for image in parsed.images]
    seen = {
        split: _tracks_in(part, parsed.tracks, in_order, factor) for split, part in splits.items()
    }
    train = seen["train"]
    is_held_out = train.held_out()
    checks = {
        split: tracks.observed(is_held_out[tracks.point]).well_seen(fewest=1)
        for split, tracks in seen.items()
    }
    trained = train.observed(~is_held_out[train.point]).well_seen()
    used = {split: tracks for split, tracks in checks.items() if len(tracks.view)}
    return (trained if len(trained.view) else None), used


def _tracks_in(part: Frames, tracks: Tracks, frames: Sequence[int], factor: int) -> Tracks:
    """The `tracks` in the frames of a split; `frames` has the id of each image's frame."""
    place = {id(frame): index for index, frame in enumerate(part)}
    indices = np.array([place.get(frame, -1) for frame in frames])
    tracks = tracks.of_views(indices, np.full(len(indices), 1.0 / factor))
    sizes = [(frame.camera.lens.width, frame.camera.lens.height) for frame in part]
    beyond = (np.array(sizes).reshape(-1, 2) // factor)[tracks.view]
    return tracks.observed(np.all((tracks.pixel >= 0) & (tracks.pixel < beyond), axis=1))


def _fitted(parsed: ParsedScene, options: SceneOptions) -> Placement:
    """The placement fitted to cameras and points; leveled if the files' axes are arbitrary."""
    is_object, images = _are_cut_out(parsed.images), _in_order(parsed)
    poses = [image.pose for image in images]
    return fit(
        poses,
        is_object,
        parsed.source,
        points=parsed.points,
        tangents=[image.lens.tangents for image in images],
        rotation=np.eye(3) if parsed.up else leveling(poses, options.up),
    )


def _are_cut_out(images: Sequence[PosedImage]) -> bool:
    """Whether the images show an object cut out by alpha, judged by three that have alpha.

    Some programs write alpha into every image, opaque throughout.
    """
    alpha = [image.image for image in images if image.header.has_alpha]
    some = {*alpha[:1], *alpha[len(alpha) // 2 :][:1], *alpha[-1:]}
    return any(map(is_cut_out, some))


def _split(parsed: ParsedScene, frames: Frames, split: Split | None) -> Splits:
    """The files' splits; a user's `split` of their "train" replaces their "test"."""
    if parsed.splits is None:
        return _held_out(frames, split or 0, parsed.source)
    splits = {name: tuple(frames[i] for i in indices) for name, indices in parsed.splits.items()}
    if split is not None:
        splits.pop("test", None)
        splits |= _held_out(splits["train"], split, parsed.source)
    return splits


def _held_out(frames: Frames, split: Split, where: str) -> Splits:
    """The views held out as "test" and the others as "train"; with `split` 0 no "test".

    Every Nth are views 0, N, 2 N, ...; a fraction is spread evenly over all. Raises InputError that
    names `where` if nothing is left to train on, or for a name that no view has.
    """
    if split == 0:
        return {"train": frames}
    if isinstance(split, tuple):
        held = {_index_of(name, frames, where) for name in split}
    elif isinstance(split, float):
        count = max(round(split * len(frames)), 1)
        held = {index * len(frames) // count for index in range(count)}
    else:
        held = set(range(0, len(frames), split))
    if len(held) == len(frames):
        names = "split, by its names," if isinstance(split, tuple) else f"split={split}"
        raise InputError(
            f"{names} holds out every view of {where}, which has {len(frames)}; use none to train "
            "on all of them"
        )
    test = tuple(frame for index, frame in enumerate(frames) if index in held)
    train = tuple(frame for index, frame in enumerate(frames) if index not in held)
    return {"train": train, "test": test}


def _index_of(name: str, frames: Frames, where: str) -> int:
    """Index of the view whose name, file name or file stem is `name`; InputError without one."""
    wanted = PurePosixPath(name.replace("\\", "/"))
    paths = [PurePosixPath(frame.name) for frame in frames]
    for matches in (
        [path == wanted for path in paths],
        [path.name == wanted.name for path in paths],
        [path.stem == wanted.name for path in paths],
    ):
        if sum(matches) == 1:
            return matches.index(True)
        if any(matches):
            raise InputError(
                f"split names {name!r}, and {sum(matches)} views of {where} are called so; "
                f"expected a name such as {frames[0].name!r}"
            )
    raise InputError(
        f"split names {name!r}, which is no view of {where} to train on; expected a name such as "
        f"{frames[0].name!r}"
    )


def _fewer(frames: Frames, most: int | None) -> Frames:
    if most is None or len(frames) <= most:
        return frames
    return tuple(frames[index * len(frames) // most] for index in range(most))


def _reduced(frame: Frame, factor: int, masks: bool) -> Frame:
    """The frame with `factor` times smaller images, and without its mask unless `masks`."""
    lens, mask = frame.camera.lens, frame.mask if masks else None
    if factor == 1:
        return replace(frame, mask=mask)
    if factor > min(lens.width, lens.height):
        raise InputError(
            f"downscale is {factor}; {frame.name} is {lens.width}x{lens.height} pixels: expected "
            f"at most {min(lens.width, lens.height)}"
        )
    camera = replace(frame.camera, lens=lens.reduced(factor))
    return replace(frame, camera=camera, reduce=factor, mask=mask)


def _warn_of_shared(scene: Scene) -> None:
    train = {frame.image for frame in scene.splits["train"]}
    test = [frame.image for frame in scene.splits.get("test", ())]
    shared = sum(image in train for image in test)
    if shared:
        log.warning(
            f"{shared} of {len(test)} test images of {scene.name} are trained on too: their "
            "quality says little"
        )


def _warn_of_links(scene: Scene, path: Path) -> None:
    """Warn of images and masks outside the scene's folder, which links lead to."""
    frames = [frame for part in scene.splits.values() for frame in part]
    files = {f for frame in frames for f in (frame.image, frame.mask) if isinstance(f, Path)}
    # The user may have named a COLMAP model's folder, with the images next to it.
    folder = Path(os.path.commonpath([os.path.abspath(file) for file in (path, *files)]))
    real = {file: file.resolve() for file in sorted(files)}
    outside = [file for file in real if not real[file].is_relative_to(folder.resolve())]
    if outside:
        log.warning(
            f"{len(outside)} of {len(files)} images and masks of {scene.name} are read from "
            f"outside its folder, through links such as {outside[0]} to {real[outside[0]]}"
        )
