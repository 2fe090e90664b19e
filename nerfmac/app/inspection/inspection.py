"""`inspect_scene` describes a scene and its cube, and reports possible problems."""

import base64
import io
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nerfmac.app.capture import captured, stored_verdict
from nerfmac.app.inspection.cameras import axis_findings, camera_findings, lens_findings
from nerfmac.app.inspection.images import depth_report, image_findings, measure_images, shown_names
from nerfmac.app.inspection.matching import match_scene
from nerfmac.app.scenes import Frame, Scene, load_scene
from nerfmac.app.scenes.diagram import draw_scene, scene_image
from nerfmac.app.scenes.placement import shown_coordinates
from nerfmac.app.scenes.scene import check_count
from nerfmac.common import user_path
from nerfmac.config.scenes import described
from nerfmac.geometry import Bounds, Lens

MIN_VIEWS = 8  # Minimum number of views, including held-out training views, that is not reported.


@dataclass(frozen=True, eq=False)
class Inspection:
    """Result of inspecting a scene: lines of text about its contents (`facts`) and about possible
    problems (`findings`).

    A notebook displays an inspection as a drawing of the cameras, points, and scene cube, and these
    lines.
    """

    scene: Scene
    facts: tuple[str, ...]
    findings: tuple[str, ...]

    def __str__(self) -> str:
        count = self.scene.warnings
        others = f"no problems found other than the {count} warnings above"
        others = "no problems found other than the warning above" if count == 1 else others
        findings = self.findings or (others if count else "no problems found",)
        return "\n".join([*self.facts, "", *findings])

    def draw(self, path: str | os.PathLike[str]) -> None:
        """Write a drawing of the cameras, points, and scene cube.

        Args:
            path: PNG file to write.

        Raises:
            InputError: If the file cannot be written.
        """
        draw_scene(user_path(path), self.scene)

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        scene_image(self.scene).save(content, "PNG")
        return content.getvalue()

    def _repr_html_(self) -> str:
        image = base64.b64encode(self._repr_png_()).decode()
        text = escape(str(self))
        return f'<img src="data:image/png;base64,{image}" width="900"><pre>{text}</pre>'


def inspect_scene(
    scene: Scene | str | os.PathLike[str],
    *,
    match: bool = False,
    progress: bool = True,
) -> Inspection:
    """Inspect a scene for possible problems. Every image of every split is decoded once.

    Args:
        scene: Scene or its path. For a video or photos, camera poses are estimated first.
        match: Whether to match the images, and to compare the matches with the camera poses.
            Requires the extra `capture`.
        progress: Whether to show a progress bar.

    Returns:
        Facts and findings about the scene.

    Raises:
        InputError: If the scene cannot be loaded or an image cannot be decoded, or if pycolmap is
            required and not installed.
    """
    if not isinstance(scene, Scene):
        scene = load_scene(captured(Path(scene)))
    frames = [frame for some in scene.splits.values() for frame in some]
    unique = list({id(frame): frame for frame in frames}.values())
    names = shown_names(scene, unique)
    for part in filter(None, scene.splits.values()):
        check_count([frame.camera for frame in part])
    measures = measure_images(unique, progress=progress)
    cameras = [frame.camera for frame in unique]
    findings = [
        *image_findings(names, measures),
        *camera_findings(names, cameras, scene.up),
        *axis_findings(cameras, scene.points),
        *_pose_findings(scene),
        *lens_findings(names, [camera.lens for camera in cameras]),
        *_split_findings(scene),
    ]
    depth_facts, depth_findings = depth_report(scene)
    facts, findings = _facts(scene, frames) + depth_facts, findings + depth_findings
    if match:
        more, problems = match_scene(scene, progress=progress)
        facts, findings = facts + more, findings + problems
    return Inspection(scene, tuple(facts), tuple(findings))


def training_findings(scene: Scene) -> list[str]:
    """Return the findings about the training views that can be computed quickly."""
    frames = scene.splits["train"]
    lenses = [frame.camera.lens for frame in frames]
    names = shown_names(scene, frames)
    findings = lens_findings(names, lenses)
    findings += axis_findings(scene.cameras("train"), scene.points) + depth_report(scene)[1]
    return findings + _split_findings(scene) + _pose_findings(scene)


def _pose_findings(scene: Scene) -> list[str]:
    """Return the evidence of the verdict on the camera poses, if nerfmac estimated them."""
    return [finding.evidence for finding in stored_verdict(scene.path).findings]


def _split_findings(scene: Scene) -> list[str]:
    """Report if there are few training views, or if two splits contain the same images."""
    findings = []
    count, held_out = len(scene.splits["train"]), scene.splits.get("test", ())
    if count + len(held_out) * (scene.options.split is not None) < MIN_VIEWS:
        views = "is only one training view" if count == 1 else f"are only {count} training views"
        findings.append(
            f"there {views}; depth requires several views of each surface: use at least "
            f"{MIN_VIEWS} images, preferably 30 or more from all sides"
        )
    images = {
        name: {frame.image for frame in frames if isinstance(frame.image, Path)}
        for name, frames in scene.splits.items()
    }
    for one, other in combinations(images, 2):
        if images[one] and images[one] == images[other]:
            count = len(images[one])
            findings.append(f"{count} images are in both splits {one} and {other}")
    return findings


def _facts(scene: Scene, frames: Sequence[Frame]) -> list[str]:
    splits = ", ".join(f"{len(views)} {name}" for name, views in scene.splits.items() if views)
    splits += f" (held out: {described(scene.options.split)})"
    lenses = list(dict.fromkeys(frame.camera.lens for frame in frames))
    x, y, z = np.round(scene.placement.turned_to_file(scene.up), 2) + 0.0  # Without -0.00.
    return [
        f"scene      {scene.name}",
        f"views      {splits}",
        f"alpha      {'yes' if scene.has_alpha else 'no'}",
        f"camera     {_lens(lenses[0])}{f', and {len(lenses) - 1} more' if lenses[1:] else ''}",
        f"points     {0 if scene.points is None else len(scene.points)}",
        f"cube       {_cube(scene, frames)}",
        f"up         {x:.2f}, {y:.2f}, {z:.2f} in file coordinates",
    ]


def _cube(scene: Scene, frames: Sequence[Frame]) -> str:
    """Describe the scene cube: its side, its position in files, and its cameras and points."""
    text = f"side {scene.extent:g} in scene units (the trained region)"
    side, center = scene.extent / scene.placement.scale, scene.placement.to_file([0.5] * 3)
    half = np.full(3, scene.extent / 2)
    box = scene.placement.box_to_file(0.5 - half, 0.5 + half)
    text += f"; in file coordinates {side:.3g} around ({shown_coordinates(center, side)})"
    text += f", which is --crop {shown_coordinates(box, side, ',')}"
    eyes = np.stack([frame.camera.pose[:, 3] for frame in frames])
    text += f"; it contains {_inside(eyes, scene.extent):.0%} of the cameras"
    if scene.points is not None and len(scene.points):
        text += f" and {_inside(scene.points, scene.extent):.0%} of the points"
    return text


def _inside(positions: npt.NDArray[np.floating], extent: float) -> float:
    """Return the fraction of the positions (n, 3) that are inside the scene cube."""
    return float(Bounds(extent).holds(positions).mean())


def _lens(lens: Lens) -> str:
    kind = "fisheye" if lens.is_fisheye else "distorted" if lens.is_distorted else "no distortion"
    ratio = lens.width / lens.fl_x
    angle = ratio if lens.is_fisheye else 2 * math.atan(ratio / 2)
    return (
        f"{lens.width}x{lens.height} pixels, focal length {lens.fl_x:.1f}, "
        f"{math.degrees(angle):.0f} degrees wide, {kind}"
    )
