"""Paths by what users call them: a move around the scene, a split's views, a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nerfmac.checks import InputError
from nerfmac.cli.arguments import meant
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from nerfmac.paths import MOVES, CameraPath, tour
from nerfmac.paths.camera_path import DEFAULT_SECONDS
from nerfmac.paths.named import TOUR_SECONDS
from nerfmac.rendering.gaze import centre_seen
from nerfmac.run import Run
from nerfmac.scenes import read_again

SPLITS = ("train", "test")


@dataclass(frozen=True)
class NamedPath:
    """A path by its `name`; `file` is the camera path that is one."""

    name: str
    file: CameraPath | None = None

    @classmethod
    def read(cls, name: str) -> NamedPath:
        """The path of that name; a file is read now. Raises `InputError`."""
        known = (*MOVES, *SPLITS)
        if name in known:
            return cls(name)
        if Path(name).suffix.lower() != ".json":
            expected = f"expected one of: {', '.join(known)}; or a camera path's FILE.json"
            raise InputError(f"--path is {name!r}; {meant(name, known, expected)}")
        return cls(name, CameraPath.load(name))

    @property
    def is_split(self) -> bool:
        """Whether it is along the views of a split, which have cameras of their own."""
        return self.name in SPLITS

    @property
    def seconds(self) -> float:
        """How long it takes if nothing is said about it."""
        if self.file is not None:
            return self.file.seconds or DEFAULT_SECONDS
        return TOUR_SECONDS if self.is_split else MOVES[self.name].seconds

    def lens(self, run: Run) -> Lens:
        """The lens of the photographs."""
        return (self._split(run) if self.is_split else run.scene.cameras)[0].lens

    def own(self, run: Run, size: tuple[int, int]) -> Sequence[Camera]:
        """The cameras of the split's views, for pictures of `size`. Raises `InputError`."""
        return _scaled(self._split(run), size)

    def cameras(self, run: Run, frames: int, size: tuple[int, int]) -> Sequence[Camera]:
        """So many cameras on the path, for pictures of `size`. Raises `InputError`."""
        twice = 2 * size[0], 2 * size[1]  # paths give even sizes only, and twice any size is even
        if self.file is not None:
            return _scaled(self.file.cameras(frames, twice), size)
        if self.is_split:
            move, given = tour, self._split(run)
        else:
            move, given = MOVES[self.name].cameras, run.scene.cameras
        scene = run.scene
        centre = centre_seen(run.renderer(), scene.cameras, scene.up)
        return _scaled(move(given, up=scene.up, frames=frames, size=twice, centre=centre), size)

    def _split(self, run: Run) -> Sequence[Camera]:
        if self.name == "train":
            return run.cameras
        if run.scene.path is None:
            raise InputError("the run's scene was never in files: its test views are not known")
        scene = read_again(run.scene)
        if not scene.splits.get("test"):
            raise InputError(f"scene {scene.name!r} has no 'test' views; take --path orbit")
        return [frame.camera for frame in scene.splits["test"]]


def _scaled(cameras: Sequence[Camera], size: tuple[int, int]) -> list[Camera]:
    return [Camera(camera.lens.within(*size), camera.pose) for camera in cameras]
