"""`Scene` contains images, their cameras, and the scene cube.

Scene coordinates are the same as in instant-ngp, but without the permutation of axes. The scene
cube has side length `extent` and its center at (0.5, 0.5, 0.5). For an object without a background,
`extent` is 1, and the scene cube is the unit cube.
"""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from PIL import Image
from tqdm.auto import tqdm

from nerfmac.app.scenes.cache import trim
from nerfmac.app.scenes.depth_images import AS_STORED, DepthImage, DepthReading
from nerfmac.app.scenes.images import decode, decode_mask, same_aspect
from nerfmac.app.scenes.placement import find_subject
from nerfmac.common import InputError, checks, delayed_progress, refuse_forked
from nerfmac.common.arrays import BoolArray, Float32Array, Float64Array, UInt8Array
from nerfmac.common.json_reader import UNSAVED
from nerfmac.config.scenes import DEFAULTS, SceneOptions, check_extent
from nerfmac.geometry import (
    Bounds,
    Camera,
    Cameras,
    Color,
    DepthMaps,
    Direction,
    Map,
    Placement,
    Sphere,
    Tracks,
    Views,
    along_rays,
    scene_ground_plane,
    shown_sizes,
    trusted,
)

MAX_PIXELS = 2**31
"""Exclusive upper limit of the number of pixels in a split, because pixel indices are int32."""
IDENTITY = Placement(1.0, np.zeros(3), 1.0)
"""Placement of a scene whose files use scene coordinates."""
SAME_WITHIN = 1e-4
"""Maximum difference of equal cameras: of poses in scene units, and of intrinsics relative to their
values. Different machines round the placement of a scene differently."""
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Frame:
    """Photo with its camera.

    Attributes:
        camera: Camera in scene coordinates. Its intrinsics determine the image size.
        image: Image file, or pixels, uint8 (h, w, 3 or 4). The scene that a run saves has no
            images.
        name: Name of the view.
        reduce: Downscaling factor. Blocks of `reduce` x `reduce` pixels are averaged.
        is_upright: Whether the camera belongs to the image after applying the EXIF orientation
            (True) or to the image as stored (False).
        mask: Mask image with the aspect ratio of the image (see `scenes.masks`), or None if the
            photo has no mask.
        depth: Depth image that a sensor has measured, with lengths in scene units, or None.
    """

    camera: Camera
    image: Path | UInt8Array = field(default=Path(), metadata=UNSAVED)
    name: str = ""
    reduce: int = 1
    is_upright: bool = True
    mask: Path | None = None
    depth: DepthImage | None = field(default=None, metadata=UNSAVED)

    def decode(self, channels: int) -> tuple[UInt8Array, BoolArray | None]:
        """Decode the image and the mask.

        Args:
            channels: 3 for RGB, or 4 for RGBA.

        Returns:
            Pixels (h, w, channels), and a mask (h, w) that is True for the pixels to use, or None.

        Raises:
            InputError: If a file cannot be decoded, the image has another size than the camera, or
                the mask has another aspect ratio.
        """
        lens = self.camera.lens
        image = decode(self.image, channels, self.name, self.reduce, upright=self.is_upright)
        if image.shape[:2] != (lens.height, lens.width):
            raise InputError(
                f"{self.name} has {image.shape[1]}x{image.shape[0]} pixels, but its camera is for "
                f"{lens.width}x{lens.height}; replace the image by one of that size"
            )
        return image, None if self.mask is None else self._decoded_mask(self.mask)

    def decode_depth(self) -> tuple[Float32Array, Float32Array] | None:
        """Decode the depth image.

        Returns:
            Depth (h, w) along the optical axis in scene units, and confidence (h, w) in [0, 1],
            both 0 where the depth is unknown; or None if the photo has no depth image.

        Raises:
            InputError: If the depth image cannot be decoded, or has another aspect ratio.
        """
        if self.depth is None:
            return None
        lens, reduce = self.camera.lens, self.reduce
        return self.depth.along_axis(lens.scaled(lens.width * reduce, lens.height * reduce))

    def _decoded_mask(self, path: Path) -> BoolArray:
        """Return the mask (h, w), True where no mask pixel in the averaged block is black."""
        lens, reduce = self.camera.lens, self.reduce
        mask = decode_mask(path, upright=self.is_upright)
        size, wanted = mask.shape[::-1], (lens.width * reduce, lens.height * reduce)
        if not all(0 <= side - other < reduce for side, other in zip(size, wanted, strict=True)):
            if not same_aspect((size[0], size[1]), wanted):
                raise InputError(
                    f"{path} has {size[0]}x{size[1]} pixels, but its image {self.name} has another "
                    f"aspect ratio; the mask must show the same area as the image"
                )
            mask = np.asarray(Image.fromarray(mask).resize(wanted, Image.Resampling.NEAREST))
        blocks = mask[: wanted[1], : wanted[0]].reshape(lens.height, reduce, lens.width, reduce)
        return np.asarray(blocks.all(axis=(1, 3)))


@dataclass(frozen=True, eq=False)
class Scene:
    """Scene with the images of each split ("train", "test", ...) and cameras in scene coordinates.

    Images are decoded when they are needed.

    Attributes:
        name: Name of the scene.
        extent: Side length of the scene cube in scene units, in (0, 128]. The center of the cube is
            (0.5, 0.5, 0.5).
        splits: Frames of each split, keyed by split name.
        up: Up direction, a unit vector in scene space.
        has_alpha: Whether all images of all splits are decoded to RGBA.
        path: Path argument of `load_scene`, or None for a scene in memory.
        options: Other arguments of `load_scene`. `split` is None only if the files have splits.
        placement: Transform from file coordinates to scene coordinates.
        points: Sparse points (n, 3) in scene space, or None.
        tracks: Observations of sparse points in the "train" views, in scene space, or None.
        has_metric_depth: Whether the poses are in the units of the depth images.
        depth_reading: Interpretation of the depth images that was chosen when the scene was loaded.
        subject: Sphere around the subject, or None if there is no subject or no run has been begun.
        mean_color: Mean sRGB color of the training images, or None if the images have alpha or no
            run has been begun.
        held_out: Tracks of the sparse points that training does not use, keyed by split name.
        warnings: Number of warnings that were logged when the scene was loaded.

    Raises:
        InputError: If `extent` is out of range.
    """

    name: str
    extent: float
    splits: Mapping[str, tuple[Frame, ...]]
    up: Direction = (0.0, 0.0, 1.0)
    has_alpha: bool = False
    path: Path | None = None
    options: SceneOptions = DEFAULTS
    placement: Placement = IDENTITY
    points: Float64Array | None = field(default=None, metadata=UNSAVED)
    tracks: Tracks | None = field(default=None, metadata=UNSAVED)
    has_metric_depth: bool = True
    depth_reading: DepthReading = AS_STORED
    subject: Sphere | None = None
    mean_color: Color | None = None
    held_out: Mapping[str, Tracks] = field(default_factory=dict, metadata=UNSAVED)
    warnings: int = field(default=0, metadata=UNSAVED)
    _views: dict[str, Views] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        check_extent(self.extent)
        checks.number("placement.scale", self.placement.scale, low=1e-30)
        checks.finite("placement.offset", self.placement.offset, (3,))
        checks.finite("placement.rotation", self.placement.rotation, (3, 3))

    def recorded(self, mean_color: Color | None = None) -> "Scene":
        """Return the scene of a run, which is saved without images and points.

        Args:
            mean_color: Mean sRGB color of the training images, or None.

        Returns:
            The scene with an absolute path, its subject, and the mean color.
        """
        return replace(
            self,
            splits={split: part for split, part in self.splits.items() if part},
            path=self.path and self.path.resolve(),
            subject=find_subject(self.points, self.cameras("train")),
            mean_color=mean_color,
        )

    @property
    def backdrop(self) -> Color:
        """Default background color of renderings and videos, sRGB in [0, 1]: the mean color of the
        training images, or white if it is unknown."""
        return self.mean_color or (1.0, 1.0, 1.0)

    @property
    def bounds(self) -> Bounds:
        """Scene cube, with the transform from scene coordinates to encoding inputs."""
        return Bounds(self.extent)

    def __repr__(self) -> str:
        splits = ", ".join(f"{name}: {len(frames)}" for name, frames in self.splits.items())
        lenses = [frame.camera.lens for frames in self.splits.values() for frame in frames]
        size = f"{shown_sizes([lens.size for lens in lenses])}, " if lenses else ""
        return f"Scene({self.name!r}, {splits or 'no views'}, {size}extent {self.extent:g})"

    def views(self, split: str, *, progress: bool = True) -> Views:
        """Decode the images of a split and copy them to the device. The result is cached.

        Args:
            split: Name of the split.
            progress: Whether to show a progress bar if decoding takes more than a second or two.

        Returns:
            The views of the split.

        Raises:
            InputError: If the split does not exist or is empty, or if an image cannot be decoded or
                has another size than its camera.
        """
        deque(self.decoding(split, progress=progress), maxlen=0)
        return self._views[split]

    def decoding(self, split: str, *, progress: bool = True) -> Iterator[None]:
        """Decode the images of a split like `views`, one image at each `next`.

        Args:
            split: Name of the split.
            progress: Whether to show a progress bar if decoding takes more than a second or two.

        Yields:
            None, after each image.

        Raises:
            InputError: If the split does not exist or an image is invalid.
        """
        if split not in self._views:
            channels = 4 if self.has_alpha else 3
            frames, is_metric = self._frames(split), self.has_metric_depth
            views = yield from _decoding(frames, channels, progress, is_metric=is_metric)
            if split == "train":
                views = replace(views, tracks=self.tracks)
                points = self.points if self.tracks is None else self.tracks.points
                if points is not None:  # With tracks, these are only the points for training.
                    eyes = np.array(views.cameras.poses[:, :, 3], np.float64)
                    find = partial(scene_ground_plane, points, self.bounds, eyes, self.up)
                    views = replace(views, find_ground=find)
            self._views[split] = views

    def cameras(self, split: str) -> tuple[Camera, ...]:
        """Return the cameras of a split.

        Args:
            split: Name of the split.

        Returns:
            Cameras in scene coordinates.

        Raises:
            InputError: If the split does not exist or is empty.
        """
        return tuple(frame.camera for frame in self._frames(split))

    def _frames(self, split: str) -> tuple[Frame, ...]:
        if frames := self.splits.get(split):
            return frames
        present = ", ".join(name for name, frames in self.splits.items() if frames) or "none"
        message = f"scene {self.name!r} has no {split!r} views; available splits: {present}"
        if split == "test":
            message += ". To hold out every 8th training view, use split=8 (--split 8)"
        raise InputError(message)


def check_count(cameras: Sequence[Camera]) -> Cameras:
    """Return the cameras of a split. If their images have too many pixels, raise `InputError`."""
    stacked = Cameras.stack(cameras)
    if stacked.pixels >= MAX_PIXELS:
        raise InputError(
            f"{len(cameras)} images of {shown_sizes(stacked.sizes)} have {stacked.pixels:,} pixels "
            f"in total; the maximum is {MAX_PIXELS - 1:,}: reduce them with downscale=2 "
            "(--downscale 2) or max_images (--max-images)"
        )
    return stacked


def _decoding(
    frames: tuple[Frame, ...], channels: int, progress: bool, *, is_metric: bool
) -> Generator[None, None, Views]:
    refuse_forked()
    cameras = check_count([frame.camera for frame in frames])
    has_mask = any(frame.mask for frame in frames)
    pixels = mx.zeros((cameras.pixels, channels), mx.uint8)
    kept = mx.ones(cameras.pixels, mx.bool_) if has_mask else None

    depths: list[Map | None] = []

    def read(index: int) -> tuple[npt.NDArray[Any], BoolArray | None, Map | None]:
        image, mask = frames[index].decode(channels)
        depth = frames[index].decode_depth()
        return image.reshape(-1, channels), None if mask is None else mask.ravel(), depth

    # MLX may be used only on this thread.
    bar = tqdm(prefetch(read, len(frames)), "images", len(frames), **delayed_progress(progress))
    end = 0
    for index, (image, mask, depth) in enumerate(bar):
        if depth is not None:
            depth = trusted(along_rays(depth[0], frames[index].camera.lens), depth[1])
        depths.append(depth)
        start, end = end, end + len(image)
        _put(pixels, start, image)
        if kept is not None and mask is not None:
            _put(kept, start, mask)
        yield
    if any(frame.reduce > 1 for frame in frames):
        trim()
    if kept is not None and not mx.any(kept).item():
        what = f"the masks exclude all pixels of all {len(frames)} images, such as {frames[0].mask}"
        raise InputError(f"{what}; black marks excluded pixels: invert the masks or use --no-masks")
    has_depth = any(depth is not None for depth in depths)
    maps = DepthMaps.stack(depths, is_metric=is_metric) if has_depth else None
    return Views(pixels, cameras, tuple(frame.name for frame in frames), kept, depth=maps)


def _put(array: mx.array, start: int, rows: npt.NDArray[Any]) -> None:
    """Write `rows` to `array` in place, starting at row `start`. The write is evaluated
    immediately, while there is no other reference to the memory of the array. Therefore, only one
    copy of the images is in memory, instead of one on the host and one on the device."""
    array[start : start + len(rows)] = mx.array(rows)
    mx.eval(array)


def prefetch(work: Callable[[int], Result], count: int) -> Iterator[Result]:
    """Yield `work(0)` to `work(count - 1)`, computed in background threads, at most a few items
    ahead of the caller. The function is intended for reading images, because Pillow releases the
    GIL while decoding."""
    threads = max(min(os.cpu_count() or 1, count), 1)
    with ThreadPoolExecutor(threads) as pool:
        waiting = deque(pool.submit(work, index) for index in range(min(threads + 1, count)))
        for index in range(len(waiting), count + len(waiting)):
            result = waiting.popleft().result()
            if index < count:
                waiting.append(pool.submit(work, index))
            yield result


def check_same(scene: Scene, recorded: Scene, run: str) -> None:
    """Raise `InputError` unless `scene` has the training views, the cameras, and the options of the
    scene of a run, and its held-out views are held-out views of the run. `run` is the name of the
    run, for the message."""
    known = names_of(recorded)
    where = f"the scene {scene.path or scene.name}"
    advice = "use the scene and the options that the run was trained with, or train a new run"
    for split, names in names_of(scene).items():
        other = [name for name in names if name not in known.get(split, ())]
        other += [name for name in known[split] if name not in names] if split == "train" else []
        if other:
            raise InputError(
                f"{run} was trained with other views of {recorded.path} than {where} contains: "
                f"{len(other)} {split} views differ, such as {other[0]!r}; {advice}"
            )
    if names_of(scene)["train"] != known["train"]:
        raise InputError(f"{where} has the training views of {run} in another order; {advice}")
    for theirs, ours in zip(recorded.splits["train"], scene.splits["train"], strict=True):
        if not _is_same(ours.camera, theirs.camera):
            differs = f"{run} was trained with another camera for {ours.name!r}"
            raise InputError(f"{differs} than {where} contains; {advice}")
    trained, found = (
        f"extent {each.extent:g}, masks {each.options.masks}, and depth {each.options.depth}"
        for each in (recorded, scene)
    )
    if trained != found:
        raise InputError(f"{run} was trained with {trained}, but {where} has {found}; {advice}")


def names_of(scene: Scene) -> dict[str, list[str]]:
    """Return the names of the views of each split, in order."""
    return {split: [frame.name for frame in part] for split, part in scene.splits.items()}


def text_of(scene: Scene) -> str:
    """Return a text that is the same for equal scenes in different folders."""
    views = {
        split: [(frame.name, frame.camera, frame.mask is None) for frame in part]
        for split, part in scene.splits.items()
    }
    return repr((scene.extent, scene.up, scene.placement, scene.options, scene.subject, views))


def _is_same(one: Camera, other: Camera) -> bool:
    ours, theirs = (np.array(astuple(camera.lens), np.float64) for camera in (one, other))
    return bool(
        np.allclose(ours, theirs, rtol=SAME_WITHIN, atol=SAME_WITHIN)
        and np.allclose(one.pose, other.pose, rtol=0.0, atol=SAME_WITHIN)
    )
