"""`inspect_scene`: what is in a scene, what will be used of it, and what looks wrong."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tqdm.auto import tqdm

from nerfmac.capture import captured
from nerfmac.common.files import user_path
from nerfmac.geometry.bounds import CENTRE, Bounds
from nerfmac.geometry.lenses import Lens
from nerfmac.inspection.cameras import camera_findings
from nerfmac.inspection.findings import shown_names
from nerfmac.inspection.folds import fold_findings, folds_of_training
from nerfmac.inspection.lenses import bent_findings, lens_findings
from nerfmac.inspection.pictures import look_at, picture_findings
from nerfmac.inspection.splits import split_findings
from nerfmac.inspection.turntable import turntable
from nerfmac.scenes import Frame, Scene, load_scene
from nerfmac.scenes.diagram import draw_scene, scene_picture
from nerfmac.scenes.options import described


@dataclass(frozen=True, eq=False)
class Inspection:
    """A scene looked at: `facts` are lines of what it has, `findings` of what looks wrong.

    In a notebook it shows the cameras, points and cube, to be turned with the mouse, and the lines.
    """

    scene: Scene
    facts: tuple[str, ...]
    findings: tuple[str, ...]

    def __str__(self) -> str:
        findings = self.findings or ("nothing looks wrong",)
        return "\n".join([*self.facts, "", *findings])

    def draw(self, path: str | os.PathLike[str]) -> None:
        """Write a PNG of cameras, points and cube. Raises InputError if it cannot be written."""
        draw_scene(user_path(path), self.scene)

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        scene_picture(self.scene).save(content, "PNG")
        return content.getvalue()

    def _repr_html_(self) -> str:
        return turntable(self.scene, str(self))


def inspect_scene(scene: Scene | str | os.PathLike[str], *, progress: bool = True) -> Inspection:
    """Look at a scene, or at the one of a path; a video or photographs are captured first.

    Every picture of every split is decoded, once. Raises InputError as `load_scene` does, and for a
    picture that cannot be decoded.
    """
    if not isinstance(scene, Scene):
        scene = load_scene(captured(Path(scene)))
    frames = [frame for some in scene.splits.values() for frame in some]
    unique = list({id(frame): frame for frame in frames}.values())
    names = shown_names(scene, unique)
    with tqdm(total=len(unique), desc="pictures", disable=not progress) as bar:
        looks = look_at(unique, bar)
    cameras = [frame.camera for frame in unique]
    findings = picture_findings(names, looks) + camera_findings(names, cameras, scene.up)
    findings += fold_findings(names, cameras, lambda index: looks[index].thumbnail)
    findings += lens_findings(names, [camera.lens for camera in cameras])
    findings += split_findings(scene)
    return Inspection(scene, tuple(_facts(scene, frames)), tuple(findings))


def training_findings(scene: Scene) -> list[str]:
    """What looks wrong with a scene that is to be trained on, as far as that is quickly told.

    The training views are decoded, if they are not yet. Raises InputError for a broken picture.
    """
    frames = scene.splits["train"]
    lenses = [frame.camera.lens for frame in frames]
    findings = bent_findings(shown_names(scene, frames), lenses) + split_findings(scene)
    return findings + folds_of_training(scene)


def _facts(scene: Scene, frames: Sequence[Frame]) -> list[str]:
    splits = ", ".join(f"{len(some)} {name}" for name, some in scene.splits.items() if some)
    splits += f" (held out: {described(scene.options.split)})"
    lenses = list(dict.fromkeys(frame.camera.lens for frame in frames))
    x, y, z = scene.up
    return [
        f"scene      {scene.name}",
        f"views      {splits}",
        f"alpha      {'yes' if scene.has_alpha else 'no'}",
        f"lens       {_lens(lenses[0])}{f', and {len(lenses) - 1} more' if lenses[1:] else ''}",
        f"points     {0 if scene.points is None else len(scene.points)}",
        f"cube       {_cube(scene, frames)}",
        f"up         {x:.2f}, {y:.2f}, {z:.2f}",
    ]


def _cube(scene: Scene, frames: Sequence[Frame]) -> str:
    """What is trained: how large it is, where in the files' coordinates, and what is in it."""
    text = f"side {scene.extent:g}, in units of the scene: what is trained"
    if scene.placement is not None:
        side, middle = scene.extent / scene.placement.scale, scene.placement.to_file([CENTRE] * 3)
        where = ", ".join(f"{each:.3g}" for each in middle)
        text += f"; in its files' coordinates {side:.3g} around ({where})"
    eyes = np.stack([frame.camera.pose[:, 3] for frame in frames])
    text += f"; it holds {_inside(eyes, scene.extent):.0%} of the cameras"
    if scene.points is not None and len(scene.points):
        text += f" and {_inside(scene.points, scene.extent):.0%} of the points"
    return text


def _inside(places: npt.NDArray[np.floating], extent: float) -> float:
    """The part of the places (n, 3) that is in the cube of side `extent`."""
    return float(Bounds(extent).holds(places).mean())


def _lens(lens: Lens) -> str:
    kind = "fisheye" if lens.is_fisheye else "distorted" if lens.is_distorted else "no distortion"
    if lens.is_fisheye:
        angle = lens.width / lens.fl_x
    else:
        angle = 2 * math.atan(lens.width / (2 * lens.fl_x))
    return (
        f"{lens.width}x{lens.height} pixels, focal length {lens.fl_x:.1f}, "
        f"{math.degrees(angle):.0f} degrees wide, {kind}"
    )
