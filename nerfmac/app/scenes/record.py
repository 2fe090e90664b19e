"""`SceneRecord`, the scene data that a run saves to be able to render without images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from pathlib import Path

import numpy as np

from nerfmac.app.scenes.depth_images import AS_STORED, DepthReading
from nerfmac.app.scenes.placement import find_subject
from nerfmac.app.scenes.scene import Scene
from nerfmac.common import InputError, checks
from nerfmac.config.scenes import DEFAULTS, SceneOptions, check_extent
from nerfmac.geometry import Bounds, Camera, Color, Direction, Placement, Sphere

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

    def __post_init__(self) -> None:
        check_extent(self.extent)
        if self.placement is not None:
            checks.number("placement.scale", self.placement.scale, low=1e-30)
            checks.finite("placement.offset", self.placement.offset, (3,))
            checks.finite("placement.rotation", self.placement.rotation, (3, 3))

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
