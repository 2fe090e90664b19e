"""Camera paths for `--path`: a move around the scene, the views of a split, or a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nerfmac.app.cli.arguments import similar
from nerfmac.app.paths import DEFAULT_SECONDS, MOVES, SPLITS, TOUR_SECONDS, CameraPath, tour
from nerfmac.app.run import Run, file_cameras, load_path, split_cameras
from nerfmac.common import InputError, read_fields, user_path
from nerfmac.geometry import Camera, Lens


@dataclass(frozen=True)
class NamedPath:
    """Camera path that the value of `--path` specifies."""

    name: str
    file: CameraPath | None = None  # Camera path in the file `name`, if it contains one.
    transforms: Path | None = None  # nerfstudio's `dataparser_transforms.json`.
    is_scene: bool = False  # Whether the path consists of the frames of a scene file.

    @classmethod
    def read(cls, name: str, transforms: Path | None = None) -> NamedPath:
        """Parse a value of `--path`: a move, a split, or the path of a JSON file, which is read.
        The path is in the coordinates of the file."""

        def refuse_transforms(reason: str) -> None:
            if transforms is not None:
                needed = "--transforms requires a camera path from nerfstudio"
                raise InputError(f"{needed}, but {reason}; remove --transforms")

        known = (*MOVES, *SPLITS)
        if name in known:
            refuse_transforms(f"--path is {name}")
            return cls(name)
        if Path(name).suffix.lower() != ".json":
            expected = f"expected one of: {', '.join(known)}; or a camera path FILE.json"
            raise InputError(f"--path is {name!r}; {similar(name, known, expected)}")
        if isinstance(read_fields(user_path(name)).values.get("frames"), list):
            refuse_transforms(f"{name} is a scene file")
            return cls(name, is_scene=True)
        return cls(name, CameraPath.load(name), transforms)

    def within(self, run: Run) -> NamedPath:
        """Return the path in the scene coordinates of `run`."""
        if self.file is None:
            return self
        return replace(self, file=load_path(run, self.name, self.transforms))

    @property
    def is_split(self) -> bool:
        """Whether the path consists of the views in a split or in a scene file."""
        return self.name in SPLITS or self.is_scene

    @property
    def is_closed(self) -> bool:
        """Whether the path is a closed loop: the first camera follows the last one."""
        return self.file.closed if self.file else not self.is_split

    @property
    def seconds(self) -> float:
        """Default duration of the path, in seconds."""
        if self.file is not None:
            return self.file.seconds or DEFAULT_SECONDS
        return TOUR_SECONDS if self.is_split else MOVES[self.name].seconds

    def lens(self, run: Run) -> Lens:
        """Return the intrinsics of the first view of the path, or of the first training view."""
        return self._views(run)[0].lens

    def view_cameras(self, run: Run, size: tuple[int, int]) -> Sequence[Camera]:
        """Return the cameras, in scene coordinates, of the views that the path consists of."""
        return _scaled(self._views(run), size)

    def _views(self, run: Run) -> Sequence[Camera]:
        """Return the cameras of the split or the scene file, or the cameras that a move follows."""
        if self.is_scene:
            return file_cameras(run, self.name)
        return split_cameras(run, self.name) if self.is_split else run.scene.cameras("train")

    def cameras(self, run: Run, frames: int, size: tuple[int, int]) -> Sequence[Camera]:
        """Sample `frames` cameras along the path, in scene coordinates."""
        # Camera paths round frame sizes down to even numbers. Therefore, twice the size is used and
        # scaled down below.
        double = 2 * size[0], 2 * size[1]
        if self.file is not None:
            return _scaled(self.file.cameras(frames, double), size)
        move, views = tour if self.is_split else MOVES[self.name], self._views(run)
        up, center = run.scene.up, run.center()
        return _scaled(move(views, up=up, frames=frames, size=double, center=center), size)


def _scaled(cameras: Sequence[Camera], size: tuple[int, int]) -> list[Camera]:
    return [Camera(camera.lens.within(*size), camera.pose) for camera in cameras]
