"""`assemble`, the conversion of a `ParsedScene` to a `Scene`."""

import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import numpy as np

from nerfmac.app.scenes.depth_images import AS_STORED
from nerfmac.app.scenes.images import are_cut_out
from nerfmac.app.scenes.masks import masks_of_images, without_masks
from nerfmac.app.scenes.measured_depth import MEASURED_WITHIN, measured_points, with_depth
from nerfmac.app.scenes.orientation import oriented
from nerfmac.app.scenes.parsed_scene import ParsedScene, PosedImage
from nerfmac.app.scenes.placement import UP, WITHIN, fit, leveling
from nerfmac.app.scenes.scene import Frame, Scene, check_same, names_of
from nerfmac.common import InputError, log, name_key
from nerfmac.config.scenes import SceneOptions, Split
from nerfmac.geometry import Camera, Placement, Tracks

TEST_EVERY = 8
"""Default interval of held-out views, as in Mildenhall et al. 2019 (LLFF). If a scene has fewer
views, no views are held out by default."""

Images = Sequence[PosedImage]
Splits = dict[str, Images]

OTHER_IMAGES = re.compile(
    r"(^|[_.-])(mask|depth|normal|alpha|disparity|label|semantic)s?([_.-]|$)", re.IGNORECASE
)
"""File names of masks, depth maps, and other images that are not photos."""


def assemble(
    parsed: ParsedScene, path: Path, options: SceneOptions, record: Scene | None = None
) -> Scene:
    """Create a scene from parsed files: choose image orientations, placement, and splits, and apply
    the scene options. If `record` is the scene of a run, the result has its placement and its
    splits.

    A warning is logged if a view is in both the training and the test split, or if symbolic links
    lead to files outside the scene folder. `path` is the path that the user specified.
    """
    read, reading = parsed.images, record.depth_reading if record else AS_STORED
    if any(image.photo.orientation != 1 for image in read):
        read = oriented(parsed)
    if not options.depth:
        read = [image._replace(depth=None) for image in read]
    if any(image.depth for image in read):
        given = reading if record else None
        read, reading = with_depth(parsed._replace(images=read), given)
    points = parsed.points if parsed.points is not None else measured_points(read)
    parsed = parsed._replace(images=read, points=points)
    placement = record.placement if record else _placed(parsed, options)
    if parsed.splits is None and options.split is None:
        options = replace(options, split=TEST_EVERY if len(read) >= TEST_EVERY else "none")
    chosen = _recorded(parsed, names_of(record)) if record else _split(parsed, options)
    tracks, held_out = _tracks(parsed, chosen, int(options.downscale))
    masks = masks_of_images(chosen, parsed.folder) if options.masks else {}
    splits = {
        name: tuple(_frame(image, placement, options, masks) for image in part)
        for name, part in chosen.items()
    }
    name = parsed.folder.resolve().name
    if options.extent not in (None, placement.extent):
        shown = f"side {options.extent:g} instead of {placement.extent:g}"
        log.info("the scene cube of %s has %s", name, shown)
        placement = placement._replace(extent=options.extent)
    up = UP if parsed.up is None else placement.turned_to_scene(options.up or parsed.up)
    scene = Scene(
        name=name,
        extent=placement.extent,
        splits=splits,
        up=record.up if record else up,
        has_alpha=any(image.photo.has_alpha for part in chosen.values() for image in part),
        path=path,
        options=options,
        placement=placement,
        points=None if points is None or not len(points) else placement.to_scene(points),
        tracks=tracks and tracks.transformed(placement),
        has_metric_depth=parsed.is_metric,
        depth_reading=reading,
        held_out={split: part.transformed(placement) for split, part in held_out.items()},
    )
    if record:
        check_same(scene, record, "the run")
        _warn_of_changes(parsed, record, scene)
    _warn_of_shared(scene)
    _warn_of_links(scene, path)
    if not parsed.is_reported:
        _warn_of_unused(parsed)
    return scene


def _in_order(parsed: ParsedScene) -> Images:
    """Return the images in name order, which determines the split, unless the files have splits."""
    if parsed.splits is not None:
        return parsed.images
    return sorted(parsed.images, key=lambda image: image.name)


def _tracks(
    parsed: ParsedScene, splits: Splits, factor: int
) -> tuple[Tracks | None, dict[str, Tracks]]:
    """Return the tracks for training, and the tracks of held-out points keyed by split name.
    `factor` is the downscaling factor."""
    if parsed.tracks is None:
        return None, {}
    seen = {split: _tracks_in(part, parsed, factor) for split, part in splits.items()}
    train = seen["train"]
    is_held_out = train.held_out()
    checks = {
        split: some.observed(is_held_out[some.point]).well_seen(fewest=1)
        for split, some in seen.items()
    }
    trained = train.observed(~is_held_out[train.point]).well_seen()
    used = {split: some for split, some in checks.items() if len(some.view)}
    return (trained if len(trained.view) else None), used


def _tracks_in(part: Images, parsed: ParsedScene, factor: int) -> Tracks:
    """Return the observations of the tracks in the views of a split. `factor` is the downscaling
    factor."""
    assert parsed.tracks is not None
    position = {id(image): index for index, image in enumerate(part)}
    indices = np.array([position.get(id(image), -1) for image in parsed.images])
    tracks = parsed.tracks.of_views(indices, np.full(len(indices), 1.0 / factor))
    sizes = [image.lens.size for image in part]
    beyond = (np.array(sizes).reshape(-1, 2) // factor)[tracks.view]
    return tracks.observed(np.all((tracks.pixel >= 0) & (tracks.pixel < beyond), axis=1))


def _frame(
    image: PosedImage, placement: Placement, options: SceneOptions, masks: Mapping[Path, Path]
) -> Frame:
    """Return the frame of an image, downscaled, with its camera in scene coordinates."""
    lens, factor = image.lens, int(options.downscale)
    if factor > min(lens.size):
        size = f"{lens.width}x{lens.height} pixels"
        expected = f"expected at most {min(lens.size)}"
        raise InputError(f"downscale is {factor}, but {image.name} has only {size}; {expected}")
    return Frame(
        Camera(lens if factor == 1 else lens.reduced(factor), placement.apply(image.pose)),
        image.photo.path,
        image.name,
        factor,
        image.is_upright,
        masks.get(image.photo.path),
        image.depth and image.depth.scaled(placement.scale),
    )


def _placed(parsed: ParsedScene, options: SceneOptions) -> Placement:
    """Return the placement of the files, or else one that is fitted to the cameras and points."""
    images, first = _in_order(parsed), parsed.images[0]
    poses = [image.pose for image in images]
    placement = parsed.placement or fit(
        poses,
        are_cut_out([image.photo.path for image in parsed.images if image.photo.has_alpha]),
        parsed.source,
        points=parsed.points,
        tangents=[image.lens.tangents for image in images],
        within=MEASURED_WITHIN if any(image.depth for image in images) else WITHIN,
        rotation=np.eye(3) if parsed.up else leveling(poses, options.up),
    )
    return placement.mirrored() if np.linalg.det(first.pose[:, :3]) < 0 else placement


def _split(parsed: ParsedScene, options: SceneOptions) -> Splits:
    """Return the images of each split, keyed by split name, at most `max_images` for each split.
    Without a `split` option, the result is the splits of the files. With a `split` option, the
    "train" views of the files are divided into "train" and "test" views, and the "test" views of
    the files are not used."""
    split, splits = options.split, {**_listed(parsed)}
    if parsed.splits is None:
        splits = _held_out(_in_order(parsed), "none" if split is None else split, parsed.source)
    elif split is not None:
        splits.pop("test", None)
        splits |= _held_out(splits["train"], split, parsed.source)
    return {name: _fewer(part, options.max_images) for name, part in splits.items()}


def _listed(parsed: ParsedScene) -> Mapping[str, Images]:
    """Return the images of each split in the files."""
    splits = parsed.splits or {}
    return {name: [parsed.images[index] for index in part] for name, part in splits.items()}


def _recorded(parsed: ParsedScene, views: Mapping[str, Sequence[str]]) -> Splits:
    """Return the images of the recorded views of a run. Missing views are omitted."""
    listed = _listed(parsed)
    splits: Splits = {}
    for split, names in views.items():
        by_name = defaultdict(list)
        for image in (*listed.get(split, ()), *_in_order(parsed)):
            by_name[image.name].append(image)
        splits[split] = [by_name[name].pop(0) for name in names if by_name[name]]
    return splits


def _warn_of_changes(parsed: ParsedScene, record: Scene, scene: Scene) -> None:
    """Log a warning about recorded views that are missing, and if the scene would now be split
    differently."""
    used, known = names_of(scene), names_of(record)
    gone = [name for split in used for name in known[split] if name not in used[split]]
    if gone:
        count = f"{len(gone)} of the {sum(map(len, known.values()))} views of the run"
        log.warning(f"{count} are missing in {parsed.source}, such as {gone[0]!r}")
    present = {name for part in used.values() for name in part}
    if changed := sorted((_masked(scene) ^ _masked(record)) & present):
        count, first = f"{len(changed)} views of {parsed.source}", changed[0]
        change = "have been added or removed since the training"
        log.warning(f"the masks of {count} {change}, such as the mask of {first!r}")
    try:
        usual = _split(parsed, record.options)
    except InputError:  # For example, the scene no longer contains a view that an option lists.
        usual = {}
    if {split: [image.name for image in part] for split, part in usual.items() if part} != known:
        log.warning(
            f"the views of {parsed.source} have changed since the training; using only the views "
            f"of the run ({', '.join(f'{len(used[split])} {split}' for split in used)})"
        )


def _masked(scene: Scene) -> set[str]:
    """Return the names of the views with a mask."""
    return {frame.name for part in scene.splits.values() for frame in part if frame.mask}


def _held_out(images: Images, split: Split, where: str) -> Splits:
    """Split images into "test" views and the other "train" views. If `split` is "none", there are
    no "test" views. A number N selects the views 0, N, 2 N, and so on, and a fraction selects
    evenly spaced views."""
    if isinstance(split, str):
        return {"train": images}
    if isinstance(split, tuple):
        held = {_index_of(name, images, where) for name in split}
    elif isinstance(split, float):
        count = max(round(split * len(images)), 1)
        held = {index * len(images) // count for index in range(count)}
    else:
        held = set(range(0, len(images), split))
    if len(held) == len(images):
        option = "the list of names in split" if isinstance(split, tuple) else f"split={split}"
        what = f"{option} holds out all {len(images)} views of {where}"
        raise InputError(f"{what}; hold out fewer views, or use none to train on all of them")
    test = [image for index, image in enumerate(images) if index in held]
    train = [image for index, image in enumerate(images) if index not in held]
    return {"train": train, "test": test}


def _index_of(name: str, images: Images, where: str) -> int:
    """Return the index of the view with `name` as its name, file name, or stem."""
    wanted = PurePosixPath(name_key(name.replace("\\", "/")))
    paths, example = [PurePosixPath(name_key(image.name)) for image in images], images[0].name
    for matches in (
        [image.name == name for image in images],
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


def _fewer(images: Images, max_images: int | None) -> Images:
    if max_images is None or len(images) <= max_images:
        return images
    return [images[index * len(images) // max_images] for index in range(max_images)]


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
    photos = [image.photo.path for image in parsed.images]
    used = {path.resolve() for path in (*photos, *parsed.unused)}
    folders = dict.fromkeys(path.parent for path in photos)
    names = {folder: without_masks(sorted(os.listdir(folder))) for folder in folders}
    files = [folder / name for folder in folders for name in names[folder]]
    files = [path for path in files if not OTHER_IMAGES.search(path.stem)]
    unused = [path for path in files if path.resolve() not in used]
    if unused:
        what = f"{len(unused)} of {len(files)} images have no camera in {parsed.source}"
        log.warning(f"{what} and are skipped, such as {unused[0]}")
    listed = {index for part in (parsed.splits or {}).values() for index in part}
    if parsed.splits is not None and len(listed) < len(parsed.images):
        rest = [image.name for i, image in enumerate(parsed.images) if i not in listed]
        what = f"{len(rest)} of {len(parsed.images)} images are in no split of {parsed.source}"
        log.warning(f"{what} and are not used, such as {rest[0]!r}")


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
