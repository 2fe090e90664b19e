"""`SceneRecord`: what a run remembers of its scene, so that it renders without the pictures."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nerfmac.checks import InputError
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from nerfmac.scenes.scene import Scene


@dataclass(frozen=True)
class SceneRecord:
    """Where a scene was read from, its cube, and the cameras of its training views."""

    path: str | None  # None: it was never in files
    test_every: int | None
    extent: float
    up: tuple[float, float, float]
    cameras: tuple[Camera, ...]

    @classmethod
    def of(cls, scene: Scene) -> SceneRecord:
        """The record of `scene`."""
        cameras = tuple(frame.camera for frame in scene.splits["train"])
        path = str(scene.path.resolve()) if scene.path else None
        return cls(path, scene.test_every, scene.extent, scene.up, cameras)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        cameras = [{**asdict(c.lens), "pose": c.pose.tolist()} for c in self.cameras]
        return {**{k: v for k, v in vars(self).items() if k != "cameras"}, "cameras": cameras}

    @classmethod
    def from_json(cls, values: Any, path: Path) -> SceneRecord:
        """From JSON values read from `path`. Raises `InputError`."""
        try:
            cameras = []
            for each in values["cameras"]:
                pose = np.array(each.pop("pose"), np.float32)
                cameras.append(Camera(Lens(**each), pose))
            rest = {k: v for k, v in values.items() if k not in ("cameras", "up")}
            return cls(**rest, up=tuple(values["up"]), cameras=tuple(cameras))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InputError(f"{path} is not a scene record: {error!r}") from error
