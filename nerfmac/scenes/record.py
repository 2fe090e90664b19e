"""`SceneRecord`: what a run saves of its scene, enough to render without the pictures."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from nerfmac.common.checks import InputError
from nerfmac.common.json_reader import Fields
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from nerfmac.scenes.options import DEFAULTS, Direction, SceneOptions, Split
from nerfmac.scenes.placement import Placement
from nerfmac.scenes.scene import Scene


def is_run(folder: Path) -> bool:
    """Whether a run was saved in `folder`."""
    return (folder / "config.json").is_file()


def refuse_run(path: Path) -> None:
    """Raise InputError if `path` is a run's folder, whose pictures are no photographs."""
    if is_run(path) and (path / "checkpoint.safetensors").is_file():
        raise InputError(
            f"{path} is a run, not a scene; to train it further: `nerfmac train --out {path} "
            f"--resume`; to look at it: `nerfmac view {path}`"
        )


@dataclass(frozen=True)
class SceneRecord:
    """Where a scene was read from and how, its cube, and the cameras of its training views."""

    path: str | None  # None for a scene that was not read from files
    extent: float
    up: Direction
    cameras: tuple[Camera, ...]
    options: SceneOptions = DEFAULTS
    placement: Placement | None = None  # of the scene's files; None where that is unknown

    @classmethod
    def of(cls, scene: Scene) -> SceneRecord:
        """The record of `scene`."""
        path = str(scene.path.resolve()) if scene.path else None
        placement = scene.placement
        if placement is None and scene.path is None:
            placement = Placement(1.0, np.zeros(3), scene.extent)
        cameras = scene.cameras("train")
        return cls(path, scene.extent, scene.up, cameras, scene.options, placement)

    def __repr__(self) -> str:
        return f"SceneRecord({self.path}, {len(self.cameras)} cameras, extent {self.extent:g})"

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values."""
        cameras = [{**asdict(c.lens), "pose": c.pose.tolist()} for c in self.cameras]
        placement = self.placement and {
            "scale": self.placement.scale,
            "offset": self.placement.offset.tolist(),
            "rotation": self.placement.rotation.tolist(),
        }
        options = asdict(self.options)
        return {**vars(self), "cameras": cameras, "options": options, "placement": placement}

    @classmethod
    def from_json(cls, values: Any, path: Path) -> SceneRecord:
        """The record from JSON values, read from `path`. Raises `InputError` that names the key."""
        record = Fields.of(values, str(path))
        record.allow_only(*(each.name for each in fields(cls)))
        x, y, z = record.numbers("up", 3)
        return cls(
            None if record.is_null("path") else record.text("path"),
            record.number("extent", above=0),
            (x, y, z),
            tuple(_camera(each) for each in record.objects("cameras")),
            _options(record),
            _placement(record),
        )


def _options(record: Fields) -> SceneOptions:
    given = record.object("options")
    given.allow_only(*(each.name for each in fields(SceneOptions)))
    has = [name for name, value in given.values.items() if value is not None]
    split = _split(given) if "split" in has else None
    extent = given.number("extent") if "extent" in has else None
    up = given.numbers("up", 3) if "up" in has else None
    most = given.count("max_images") if "max_images" in has else None
    how = given.count("downscale", 1), most, given.flag("masks", default=True)
    try:
        return SceneOptions(split, extent, None if up is None else (up[0], up[1], up[2]), *how)
    except InputError as error:
        raise InputError(f"{given.where}: {error}") from error


def _split(given: Fields) -> Split:
    if isinstance(given.values["split"], list):
        return given.texts("split")
    number = given.number("split")
    return int(number) if number == int(number) else number


def _placement(record: Fields) -> Placement | None:
    if "placement" not in record or record.is_null("placement"):
        return None
    given = record.object("placement")
    given.allow_only("scale", "offset", "rotation")
    scale, offset = given.number("scale", above=0), np.array(given.numbers("offset", 3))
    rotation = np.array(given.table("rotation", (3,), 3))
    return Placement(scale, offset, record.number("extent", above=0), rotation)


def _camera(given: Fields) -> Camera:
    size, lengths = ("width", "height"), [each.name for each in fields(Lens)][2:-1]
    given.allow_only(*size, *lengths, "is_fisheye", "pose")
    width, height = (given.count(name) for name in size)
    numbers = [given.number(name) for name in lengths]
    is_fisheye = given.flag("is_fisheye", default=False)
    pose = np.array(given.table("pose", (3,), 4))
    try:
        return Camera(Lens(width, height, *numbers, is_fisheye=is_fisheye), pose.astype(np.float32))
    except InputError as error:
        raise InputError(f"{given.where}: {error}") from error
