"""`ParsedScene`, the contents of scene files that a reader returns, and conversion to a `Scene`."""

import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from nerfmac.app.scenes.depth_readings import with_depth
from nerfmac.app.scenes.images import is_cut_out, is_image
from nerfmac.app.scenes.masks import masked, without_masks
from nerfmac.app.scenes.measured_points import MEASURED_WITHIN, measured_points
from nerfmac.app.scenes.placement import UP, WITHIN, fit, leveling
from nerfmac.app.scenes.posed_image import PosedImage, oriented
from nerfmac.app.scenes.record import SceneRecord, masked_views
from nerfmac.app.scenes.scene import Frame, Scene
from nerfmac.common import Float64Array, InputError, log, name_key
from nerfmac.config.scenes import SceneOptions, Split
from nerfmac.geometry import Direction, Placement, Tracks

TEST_EVERY = 8
"""Default interval of held-out views, as in Mildenhall et al. 2019 (LLFF). If a scene has fewer
views, no views are held out by default."""

Frames = tuple[Frame, ...]
Splits = dict[str, Frames]

OTHER_IMAGES = re.compile(
    r"(^|[_.-])(mask|depth|normal|alpha|disparity|label|semantic)s?([_.-]|$)", re.IGNORECASE
)
"""File names of masks, depth maps, and other images that are not photos."""


class ParsedScene(NamedTuple):
    """Images, cameras, and sparse points of scene files, in the coordinates of these files.

    Attributes:
        source: File or folder for messages.
        folder: Scene folder; its name is the scene name.
        images: Images with cameras.
        up: Up direction, or None if the axes of the files are arbitrary and `assemble` must level
            the scene.
        points: Sparse points (n, 3), or None.
        placement: Placement that the files specify, or None to fit one to cameras and points.
        splits: Indices into `images`, keyed by split name, or None if the files have no splits.
        tracks: Observations of the sparse points in `images`, or None.
        is_metric: Whether the poses are in the units of the depth images.
        unused: Images that the files exclude, and that have been reported already.
    """

    source: str
    folder: Path
    images: Sequence[PosedImage]
    up: Direction | None = None
    points: Float64Array | None = None
    placement: Placement | None = None
    splits: Mapping[str, Sequence[int]] | None = None
    tracks: Tracks | None = None
    is_metric: bool = True
    unused: Sequence[Path] = ()
    is_reported: bool = False  # Whether the images without a camera have been reported already.


def assemble(
    parsed: ParsedScene, path: Path, options: SceneOptions, record: SceneRecord | None = None
) -> Scene:
    """Create a scene from parsed files: choose image orientations, placement, and splits, and apply
    the scene options. If `record` is the record of a run, the result has the placement and the
    splits of the record.

    A warning is logged if a view is in both the training and the test split, or if symbolic links
    lead to files outside the scene folder. `path` is the path that the user specified.
    """
    read = oriented(parsed.images, parsed.points, parsed.tracks, parsed.source)
    scale = None if parsed.is_metric else parsed.points
    given = record.depth if record else None
    read = read if options.depth else [image._replace(depth=None) for image in read]
    read, reading = with_depth(read, scale, parsed.source, given)
    points = parsed.points if parsed.points is not None else measured_points(read)
    parsed = parsed._replace(images=read, points=points)
    images = _in_order(parsed)
    placement = (record and record.placement) or _placed(parsed, options)
    frames = tuple(image.placed(placement) for image in images)
    if parsed.splits is None and options.split is None:
        options = replace(options, split=TEST_EVERY if len(frames) >= TEST_EVERY else "none")
    splits = _recorded(parsed, frames, record.views) if record else _split(parsed, frames, options)
    factor = int(options.downscale)
    used = {id(frame) for part in splits.values() for frame in part}
    tracks, held_out = _tracks(parsed, images, frames, splits, factor)
    splits = {
        name: tuple(_reduced(frame, factor, options.masks) for frame in part)
        for name, part in splits.items()
    }
    if options.masks:
        splits = masked(splits, parsed.folder)
    name = parsed.folder.resolve().name
    if options.extent not in (None, placement.extent):
        shown = f"side {options.extent:g} instead of {placement.extent:g}"
        log.info("the scene cube of %s has %s", name, shown)
        placement = placement._replace(extent=options.extent)
    points = parsed.points
    points = None if points is None or not len(points) else placement.to_scene(points)
    up = UP if parsed.up is None else placement.turned_to_scene(options.up or parsed.up)
    scene = Scene(
        name=name,
        extent=placement.extent,
        splits=splits,
        up=record.up if record else up,
        has_alpha=any(
            image.header.has_alpha
            for image, frame in zip(images, frames, strict=True)
            if id(frame) in used
        ),
        path=path,
        options=options,
        placement=placement,
        points=points,
        tracks=tracks and tracks.transformed(placement),
        has_metric_depth=parsed.is_metric,
        depth_reading=reading,
        held_out={split: part.transformed(placement) for split, part in held_out.items()},
    )
    if record:
        record.check_views(scene, "the run")
        _warn_of_changes(parsed, frames, record, scene)
    _warn_of_shared(scene)
    _warn_of_links(scene, path)
    if not parsed.is_reported:
        _warn_of_unused(parsed)
    return scene


def _in_order(parsed: ParsedScene) -> Sequence[PosedImage]:
    """Return the images in name order, which determines the split, unless the files have splits."""
    if parsed.splits is not None:
        return parsed.images
    return sorted(parsed.images, key=lambda image: image.name)


def _tracks(
    parsed: ParsedScene, images: Sequence[PosedImage], frames: Frames, splits: Splits, factor: int
) -> tuple[Tracks | None, dict[str, Tracks]]:
    """Return the tracks for training, and the tracks of held-out points keyed by split name.
    `images` and `frames` contain all views in the same order. `factor` is the downscaling
    factor."""
    if parsed.tracks is None:
        return None, {}
    frame_of = {id(pic): id(frame) for pic, frame in zip(images, frames, strict=True)}
    in_order = [frame_of[id(image)] for image in parsed.images]
    tracks = parsed.tracks
    seen = {split: _tracks_in(part, tracks, in_order, factor) for split, part in splits.items()}
    train = seen["train"]
    is_held_out = train.held_out()
    checks = {
        split: some.observed(is_held_out[some.point]).well_seen(fewest=1)
        for split, some in seen.items()
    }
    trained = train.observed(~is_held_out[train.point]).well_seen()
    used = {split: some for split, some in checks.items() if len(some.view)}
    return (trained if len(trained.view) else None), used


def _tracks_in(part: Frames, tracks: Tracks, frames: Sequence[int], factor: int) -> Tracks:
    """Return the observations of `tracks` in the views of a split. `part` contains the frames of
    the split, and `frames` the id of the frame of each image. `factor` is the downscaling
    factor."""
    position = {id(frame): index for index, frame in enumerate(part)}
    indices = np.array([position.get(frame, -1) for frame in frames])
    tracks = tracks.of_views(indices, np.full(len(indices), 1.0 / factor))
    sizes = [(frame.camera.lens.width, frame.camera.lens.height) for frame in part]
    beyond = (np.array(sizes).reshape(-1, 2) // factor)[tracks.view]
    return tracks.observed(np.all((tracks.pixel >= 0) & (tracks.pixel < beyond), axis=1))


def _placed(parsed: ParsedScene, options: SceneOptions) -> Placement:
    placement = parsed.placement or _fitted(parsed, options)
    is_mirrored = np.linalg.det(parsed.images[0].pose[:, :3]) < 0
    return placement.mirrored() if is_mirrored else placement


def _fitted(parsed: ParsedScene, options: SceneOptions) -> Placement:
    is_object, images = _are_cut_out(parsed.images), _in_order(parsed)
    poses = [image.pose for image in images]
    return fit(
        poses,
        is_object,
        parsed.source,
        points=parsed.points,
        tangents=[image.lens.tangents for image in images],
        within=MEASURED_WITHIN if any(image.depth for image in images) else WITHIN,
        rotation=np.eye(3) if parsed.up else leveling(poses, options.up),
    )


def _are_cut_out(images: Sequence[PosedImage]) -> bool:
    """Return whether the images show an object that is cut out with an alpha channel. Only three
    images with alpha are checked. An alpha channel is not sufficient, because some programs write
    opaque alpha to every image."""
    alpha = [image.image for image in images if image.header.has_alpha]
    checked = {*alpha[:1], *alpha[len(alpha) // 2 :][:1], *alpha[-1:]}
    return any(map(is_cut_out, checked))


def _split(parsed: ParsedScene, frames: Frames, options: SceneOptions) -> Splits:
    """Return the frames of each split, keyed by split name, at most `max_images` for each split.
    Without a `split` option, the result is the splits of the files. With a `split` option, the
    "train" views of the files are divided into "train" and "test" views, and the "test" views of
    the files are not used."""
    split, splits = options.split, {}
    if parsed.splits is None:
        splits = _held_out(frames, "none" if split is None else split, parsed.source)
    else:
        splits = _listed(parsed.splits, frames)
        if split is not None:
            splits.pop("test", None)
            splits |= _held_out(splits["train"], split, parsed.source)
    return {name: _fewer(part, options.max_images) for name, part in splits.items()}


def _listed(splits: Mapping[str, Sequence[int]], frames: Frames) -> Splits:
    return {name: tuple(frames[index] for index in part) for name, part in splits.items()}


def _recorded(parsed: ParsedScene, frames: Frames, views: Mapping[str, Sequence[str]]) -> Splits:
    """Return the frames of the recorded views of a run. Missing views are omitted."""
    listed, splits = _listed(parsed.splits or {}, frames), {}
    for split, names in views.items():
        by_name = defaultdict(list)
        for frame in (*listed.get(split, ()), *frames):
            by_name[frame.name].append(frame)
        splits[split] = tuple(by_name[name].pop(0) for name in names if by_name[name])
    return splits


def _warn_of_changes(
    parsed: ParsedScene, frames: Frames, record: SceneRecord, scene: Scene
) -> None:
    """Log a warning about recorded views that are missing, and if the scene would now be split
    differently."""
    used = {split: _names(part) for split, part in scene.splits.items()}
    gone = [name for split in used for name in record.views[split] if name not in used[split]]
    if gone:
        count = f"{len(gone)} of the {sum(map(len, record.views.values()))} views of the run"
        log.warning(f"{count} are missing in {parsed.source}, such as {gone[0]!r}")
    present = {name for part in used.values() for name in part}
    if changed := sorted(({*masked_views(scene)} ^ {*record.masked}) & present):
        count, first = f"{len(changed)} views of {parsed.source}", changed[0]
        change = "have been added or removed since the training"
        log.warning(f"the masks of {count} {change}, such as the mask of {first!r}")
    try:
        usual = _split(parsed, frames, record.options)
    except InputError:  # For example, the scene no longer contains a view that an option lists.
        usual = {}
    if {split: _names(part) for split, part in usual.items() if part} != dict(record.views):
        log.warning(
            f"the views of {parsed.source} have changed since the training; using only the views "
            f"of the run ({', '.join(f'{len(used[split])} {split}' for split in used)})"
        )


def _names(frames: Sequence[Frame]) -> tuple[str, ...]:
    return tuple(frame.name for frame in frames)


def _held_out(frames: Frames, split: Split, where: str) -> Splits:
    """Split frames into "test" views and the other "train" views. If `split` is "none", there are
    no "test" views. A number N selects the views 0, N, 2 N, and so on, and a fraction selects
    evenly spaced views."""
    if isinstance(split, str):
        return {"train": frames}
    if isinstance(split, tuple):
        held = {_index_of(name, frames, where) for name in split}
    elif isinstance(split, float):
        count = max(round(split * len(frames)), 1)
        held = {index * len(frames) // count for index in range(count)}
    else:
        held = set(range(0, len(frames), split))
    if len(held) == len(frames):
        option = "the list of names in split" if isinstance(split, tuple) else f"split={split}"
        what = f"{option} holds out all {len(frames)} views of {where}"
        raise InputError(f"{what}; hold out fewer views, or use none to train on all of them")
    test = tuple(frame for index, frame in enumerate(frames) if index in held)
    train = tuple(frame for index, frame in enumerate(frames) if index not in held)
    return {"train": train, "test": test}


def _index_of(name: str, frames: Frames, where: str) -> int:
    """Return the index of the view with `name` as its name, file name, or stem."""
    wanted = PurePosixPath(name_key(name.replace("\\", "/")))
    paths, example = [PurePosixPath(name_key(frame.name)) for frame in frames], frames[0].name
    for matches in (
        [frame.name == name for frame in frames],
        [path == wanted for path in paths],
        [path.name == wanted.name for path in paths],
        [path.stem == wanted.name for path in paths],
    ):
        if sum(matches) == 1:
            return matches.index(True)
        if any(matches):
            found = f"{name!r}, which matches {sum(matches)} views of {where}"
            raise InputError(f"split contains {found}; use a unique name such as {example!r}")
    found = f"{name!r}, which is not a training view of {where}"
    raise InputError(f"split contains {found}; use a name such as {example!r}")


def _fewer(frames: Frames, max_images: int | None) -> Frames:
    if max_images is None or len(frames) <= max_images:
        return frames
    return tuple(frames[index * len(frames) // max_images] for index in range(max_images))


def _reduced(frame: Frame, factor: int, masks: bool) -> Frame:
    """Return the frame downscaled by `factor`, and without its mask unless `masks`."""
    lens, mask = frame.camera.lens, frame.mask if masks else None
    if factor == 1:
        return replace(frame, mask=mask)
    if factor > min(lens.width, lens.height):
        size = f"{lens.width}x{lens.height} pixels"
        expected = f"expected at most {min(lens.width, lens.height)}"
        raise InputError(f"downscale is {factor}, but {frame.name} has only {size}; {expected}")
    camera = replace(frame.camera, lens=lens.reduced(factor))
    return replace(frame, camera=camera, reduce=factor, mask=mask)


def _warn_of_shared(scene: Scene) -> None:
    train = {frame.image for frame in scene.splits["train"]}
    test = [frame.image for frame in scene.splits.get("test", ())]
    shared = sum(image in train for image in test)
    if shared:
        what = f"{shared} of {len(test)} test images of {scene.name} are also training images"
        log.warning(f"{what}, so their quality is not meaningful")


def _warn_of_unused(parsed: ParsedScene) -> None:
    """Log how many images next to the images of the scene have no camera, and how many images with
    a camera are in no split of the scene files."""
    used = {path.resolve() for path in (*(image.image for image in parsed.images), *parsed.unused)}
    folders = dict.fromkeys(image.image.parent for image in parsed.images)
    files = [folder / name for folder in folders for name in _photos_in(folder)]
    unused = [path for path in files if path.resolve() not in used]
    if unused:
        what = f"{len(unused)} of {len(files)} images have no camera in {parsed.source}"
        log.warning(f"{what} and are skipped, such as {unused[0]}")
    listed = {index for part in (parsed.splits or {}).values() for index in part}
    if parsed.splits is not None and len(listed) < len(parsed.images):
        names = [image.name for i, image in enumerate(parsed.images) if i not in listed]
        what = f"{len(names)} of {len(parsed.images)} images are in no split of {parsed.source}"
        log.warning(f"{what} and are not used, such as {names[0]!r}")


def _photos_in(folder: Path) -> list[str]:
    """Return the names of the images in a folder, without masks, depth maps, and normal maps."""
    names = [name for name in sorted(os.listdir(folder)) if is_image(name)]
    return [name for name in without_masks(names) if not OTHER_IMAGES.search(Path(name).stem)]


def _warn_of_links(scene: Scene, path: Path) -> None:
    frames = [frame for part in scene.splits.values() for frame in part]
    files = {f for frame in frames for f in (frame.image, frame.mask) if isinstance(f, Path)}
    # The user may have passed the model folder of a COLMAP scene, with the images next to it.
    folder = Path(os.path.commonpath([os.path.abspath(file) for file in (path, *files)]))
    real = {file: file.resolve() for file in sorted(files)}
    outside = [file for file in real if not real[file].is_relative_to(folder.resolve())]
    if outside:
        count = f"{len(outside)} of {len(files)} images and masks of {scene.name}"
        example = f"{outside[0]} to {real[outside[0]]}"
        log.warning(f"{count} are outside its folder and read through links, such as {example}")
