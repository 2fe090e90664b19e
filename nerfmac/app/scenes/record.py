"""`SceneRecord`, the scene data that a run saves to be able to render without images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from nerfmac.app.scenes.depth_images import AS_STORED, DepthReading
from nerfmac.app.scenes.placement import find_subject
from nerfmac.app.scenes.scene import Scene
from nerfmac.common import Fields, InputError, prefix_errors
from nerfmac.config.scenes import DEFAULTS, SceneOptions, Split
from nerfmac.geometry import Bounds, Camera, Color, Direction, Lens, Placement, Sphere

SAME_WITHIN = 1e-4
"""Maximum difference of equal cameras: of poses in scene units, and of intrinsics relative to their
values. Different machines round the placement of a scene differently."""


def is_run(folder: Path) -> bool:
    """Return whether a run was saved in `folder`."""
    return (folder / "config.json").is_file()


def refuse_run(path: Path) -> None:
    """Raise `InputError` if `path` is a run folder. Run folders contain no photos."""
    if is_run(path) and (path / "checkpoint.safetensors").is_file():
        raise InputError(
            f"{path} is a run, not a scene; continue its training with `nerfmac train --out {path} "
            f"--resume`, or open it with `nerfmac view {path}`"
        )


@dataclass(frozen=True)
class SceneRecord:
    """Path, options, and cube of a scene, the cameras of its training views, and the view names."""

    path: str | None  # Path of the scene, or None for a scene in memory.
    extent: float
    up: Direction
    cameras: tuple[Camera, ...]
    options: SceneOptions = DEFAULTS
    placement: Placement | None = None  # From file to scene coordinates, or None if unknown.
    # Mean sRGB color of the training images, or None if it is unknown or the images have alpha.
    mean_color: Color | None = None
    subject: Sphere | None = None  # Sphere around the subject, or None if there is no subject.
    # Names of the views of each split, in order. If the scene changes, these views are still used.
    views: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    masked: tuple[str, ...] = ()  # Names of the views with a mask.
    depth: DepthReading = AS_STORED

    @property
    def name(self) -> str:
        """Name of the scene folder, or "scene" for a scene in memory."""
        path = Path(self.path or "scene")
        return path.parent.name if path.suffix in (".json", ".npy", ".npz") else path.name

    @property
    def backdrop(self) -> Color:
        """Default background color of renderings and videos, sRGB in [0, 1]. The color is the mean
        color of the training images, or white if the images have alpha."""
        return self.mean_color or (1.0, 1.0, 1.0)

    @property
    def bounds(self) -> Bounds:
        """Scene cube, with the transform from scene coordinates to encoding inputs."""
        return Bounds(self.extent)

    @classmethod
    def of(cls, scene: Scene, mean_color: Color | None = None) -> SceneRecord:
        """Create a record from a scene. `mean_color` is the sRGB color of the training images."""
        placement = scene.placement
        if placement is None and scene.path is None:
            placement = Placement(1.0, np.zeros(3), scene.extent)
        splits = {split: part for split, part in scene.splits.items() if part}
        return cls(
            path=str(scene.path.resolve()) if scene.path else None,
            extent=scene.extent,
            up=scene.up,
            cameras=scene.cameras("train"),
            options=scene.options,
            placement=placement,
            mean_color=mean_color,
            subject=find_subject(scene.points, scene.cameras("train")),
            views={split: tuple(frame.name for frame in part) for split, part in splits.items()},
            masked=masked_views(scene),
            depth=scene.depth_reading,
        )

    def __repr__(self) -> str:
        return f"SceneRecord({self.path}, {len(self.cameras)} cameras, extent {self.extent:g})"

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON values."""
        cameras = [{**asdict(c.lens), "pose": c.pose.tolist()} for c in self.cameras]
        placement = self.placement and {
            "scale": self.placement.scale,
            "offset": self.placement.offset.tolist(),
            "rotation": self.placement.rotation.tolist(),
        }
        options = asdict(self.options)
        values: dict[str, Any] = {"cameras": cameras, "options": options, "placement": placement}
        values |= {"subject": self.subject and self.subject._asdict()}
        return {**vars(self), **values, "depth": self.depth._asdict()}

    @classmethod
    def from_json(cls, values: Any, path: Path) -> SceneRecord:
        """Parse the JSON `values` of a record. `path` is their file, for error messages."""
        record = Fields.of(values, str(path))
        record.allow_only(*(field.name for field in fields(cls)))
        x, y, z = record.numbers("up", 3)
        return cls(
            None if record.is_null("path") else record.text("path"),
            record.number("extent", above=0),
            (x, y, z),
            tuple(_camera(camera) for camera in record.objects("cameras")),
            _options(record.object("options")),
            _placement(record),
            _color(record),
            _subject(record),
            _views(record.object("views")),
            record.texts("masked"),
            _depth(record.object("depth")),
        )

    def check_views(self, scene: Scene, run: str) -> None:
        """Raise `InputError` unless the training views of `scene` have the names and the cameras of
        the record, and its held-out views are held-out views of the record. `run` is the name of
        the run, for the message."""
        names = {split: [frame.name for frame in part] for split, part in scene.splits.items()}
        where = f"the scene {scene.path or scene.name}"
        advice = "use the scene and the options that the run was trained with, or train a new run"
        for split, part in names.items():
            known = self.views.get(split, ())
            other = [name for name in part if name not in known]
            other += [name for name in known if split == "train" and name not in part]
            if other:
                raise InputError(
                    f"{run} was trained with other views of {self.path} than {where} contains: "
                    f"{len(other)} {split} views differ, such as {other[0]!r}; {advice}"
                )
        if names["train"] != list(self.views["train"]):
            raise InputError(f"{where} has the training views of {run} in another order; {advice}")
        for name, ours, theirs in zip(
            names["train"], self.cameras, scene.cameras("train"), strict=True
        ):
            if not _is_same(ours, theirs):
                differs = f"{run} was trained with another camera for {name!r}"
                raise InputError(f"{differs} than {where} contains; {advice}")


def masked_views(scene: Scene) -> tuple[str, ...]:
    """Return the names of the views with a mask."""
    return tuple(frame.name for part in scene.splits.values() for frame in part if frame.mask)


def _is_same(one: Camera, other: Camera) -> bool:
    ours, theirs = (np.array(astuple(camera.lens), np.float64) for camera in (one, other))
    return bool(
        np.allclose(ours, theirs, rtol=SAME_WITHIN, atol=SAME_WITHIN)
        and np.allclose(one.pose, other.pose, rtol=0.0, atol=SAME_WITHIN)
    )


def _views(views: Fields) -> dict[str, tuple[str, ...]]:
    return {split: views.texts(split) for split in views.values}


def _color(record: Fields) -> Color | None:
    if record.is_null("mean_color"):
        return None
    red, green, blue = record.numbers("mean_color", 3)
    return red, green, blue


def _subject(record: Fields) -> Sphere | None:
    if record.is_null("subject"):
        return None
    subject = record.object("subject")
    subject.allow_only(*Sphere._fields)
    x, y, z = subject.numbers("center", 3)
    return Sphere((x, y, z), subject.number("radius", above=0))


def _options(options: Fields) -> SceneOptions:
    options.allow_only(*(field.name for field in fields(SceneOptions)))
    given = {name for name, value in options.values.items() if value is not None}
    values: dict[str, Any] = {
        "split": _split(options) if "split" in given else None,
        "extent": options.number("extent") if "extent" in given else None,
        "up": options.numbers("up", 3) if "up" in given else None,
        "downscale": options.count("downscale", 1),
        "max_images": options.count("max_images") if "max_images" in given else None,
        "masks": options.flag("masks", default=True),
        "depth": options.flag("depth", default=True),
    }
    with prefix_errors(options.where):
        return SceneOptions(**values)


def _depth(depth: Fields) -> DepthReading:
    depth.allow_only(*DepthReading._fields)
    marker = None if depth.is_null("marker") else depth.number("marker", above=0)
    return DepthReading(depth.number("factor", above=0), depth.flag("along_rays"), marker)


def _split(options: Fields) -> Split:
    if isinstance(options.values["split"], list):
        return options.texts("split")
    if options.values["split"] == "none":
        return "none"
    number = options.number("split")
    return int(number) if number == int(number) else number


def _placement(record: Fields) -> Placement | None:
    if record.is_null("placement"):
        return None
    placement = record.object("placement")
    placement.allow_only("scale", "offset", "rotation")
    scale, offset = placement.number("scale", above=0), np.array(placement.numbers("offset", 3))
    rotation = np.array(placement.table("rotation", (3,), 3))
    return Placement(scale, offset, record.number("extent", above=0), rotation)


def _camera(camera: Fields) -> Camera:
    lengths = [field.name for field in fields(Lens)][2:-1]
    camera.allow_only("width", "height", *lengths, "is_fisheye", "pose")
    size = camera.count("width"), camera.count("height")
    numbers = [camera.number(name) for name in lengths]
    is_fisheye = camera.flag("is_fisheye", default=False)
    pose = np.array(camera.table("pose", (3,), 4))
    with prefix_errors(camera.where):
        return Camera(Lens(*size, *numbers, is_fisheye=is_fisheye), pose.astype(np.float32))
