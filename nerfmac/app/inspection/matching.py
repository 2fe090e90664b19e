"""Comparison of given camera poses with the images, by matching features.

The epipolar errors of matches reveal poses that do not belong to the images. If most pairs of
images contradict the poses, other readings of the poses are tried: other camera axes, a mirrored
world, inverse matrices, and another order of the images. A reading that fits is the explanation.
"""

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image
from tqdm.auto import tqdm

from nerfmac.app.capture.capture import need_pycolmap
from nerfmac.app.capture.inputs import CapturedImage
from nerfmac.app.capture.pairs import MATCHED, in_sequence, sorted_pair
from nerfmac.app.capture.scene_files import copy_model
from nerfmac.app.capture.structure import Solver
from nerfmac.app.capture.two_views import (
    Matches,
    Pair,
    agreeing_shares,
    agreements,
    errors,
    size_of,
    tolerance,
)
from nerfmac.app.inspection.images import shown_names, summed_up
from nerfmac.app.inspection.pose_readings import Cameras, readings, reordered
from nerfmac.app.scenes import Frame, Scene
from nerfmac.app.scenes.readers.colmap import MATCHED_POINTS
from nerfmac.app.scenes.readers.colmap_model import read_model
from nerfmac.common import InputError
from nerfmac.geometry import Camera

Floats = npt.NDArray[np.float64]

LABELS = {
    "images": "reading images",
    "features": "extracting features",
    "matches": "matching",
    "points": "triangulating points",
}
"""Text of the progress bar of each stage."""
EVERY_BELOW = 40  # Number of images up to which all pairs are matched.
NEAREST = 6  # Number of nearest cameras that are matched in addition to the next images.
SAMPLED_PAIRS, SAMPLED_MATCHES = 80, 40
"""Approximate numbers of pairs, and of matches of each pair, on which readings are compared."""
FITS, BETTER = 0.5, 0.25
"""Minimum mean agreement of poses that belong to the images, and minimum gain of another
reading."""
WRONG = 0.4  # Agreement of the matches of an image below which its camera is wrong.
MIN_PAIRS = 3  # Minimum number of pairs of an image whose camera is judged.
FOCAL_FACTORS = np.geomspace(0.6, 1.67, 61)
"""Factors by which focal lengths are multiplied. The step is 1.7 %."""
SAME_FOCAL, LOWER_ERROR = 0.04, 0.8
"""Relative difference of focal lengths that is reported, and maximum ratio of the errors."""
ROUNDS = 15  # Iterations of fitting a rotation.


class Matching(NamedTuple):
    """Comparison of the poses of a scene with its images.

    Attributes:
        facts: Lines that describe the number of matched pairs and their errors.
        findings: Lines that describe poses that contradict the images.
    """

    facts: list[str]
    findings: list[str]


def match_scene(scene: Scene, *, keep_points: bool = False, progress: bool = True) -> Matching:
    """Match the images of a scene, and compare the matches with the camera poses.

    Args:
        scene: Scene with images. Requires the extra `capture`.
        keep_points: Whether to write the sparse points that the matches and the poses determine to
            the folder `matched` of the scene, where `load_scene` finds them. Nothing is written if
            the poses contradict the matches.
        progress: Whether to show progress bars.

    Returns:
        Facts and findings about the poses.

    Raises:
        InputError: If pycolmap is not installed, an image cannot be decoded, or the points cannot
            be written to the scene folder.
    """
    need_pycolmap()
    target = _points_folder(scene) if keep_points else None
    frames = list(dict.fromkeys(frame for some in scene.splits.values() for frame in some))
    shown = dict(zip(frames, shown_names(scene, frames), strict=True))
    frames.sort(key=lambda frame: shown[frame])
    named = {f"{number:05}.jpg": frame for number, frame in enumerate(frames)}
    cameras = {name: frame.camera for name, frame in named.items()}
    names = {name: shown[frame] for name, frame in named.items()}
    with tempfile.TemporaryDirectory() as folder:
        solver = _solver_of(named, Path(folder), progress)
        found = compare_poses(solver.matches_of(pairs_to_match(cameras)), cameras, names)
        if target is None or found.findings:
            return found
        model = solver.triangulated(cameras, {name: named[name].name for name in named})
        copy_model(model, target)
        count = len(read_model(target).points)
    found.facts.append(f"kept       {count} sparse points in {target}, which training will use")
    return found


def _points_folder(scene: Scene) -> Path:
    """Return the folder for the triangulated points of a scene."""
    if scene.path is None or scene.tracks is not None:
        state = "is in memory" if scene.path is None else "has sparse points already"
        raise InputError(f"cannot keep points: {scene.name} {state}; omit --keep-points")
    return (scene.path if scene.path.is_dir() else scene.path.parent) / MATCHED_POINTS


def _solver_of(named: Mapping[str, Frame], folder: Path, progress: bool) -> Solver:
    """Write the images to `folder`, and return a solver that matches them."""

    def bar(name: str, total: int | None) -> Any:
        return tqdm(total=total, desc=LABELS[name], disable=not progress)

    image_folder = folder / "images"
    image_folder.mkdir()
    images = []
    with bar("images", len(named)) as counting:
        for name, frame in named.items():
            pixels, _ = frame.decode(3)
            Image.fromarray(pixels).save(image_folder / name, quality=95)
            # Matches must not depend on the focal lengths that are judged.
            images.append(CapturedImage(name, pixels.shape[1], pixels.shape[0], 0.0))
            counting.update()
    return Solver(folder, image_folder, images, bar)


def pairs_to_match(cameras: Cameras) -> list[Pair]:
    """Return the sorted pairs of images to match: all pairs, or for many images, the next images in
    name order, which may show the same content even if poses are wrong, and the nearest cameras."""
    names = sorted(cameras)
    if len(names) <= EVERY_BELOW:
        return list(combinations(names, 2))
    eyes = np.stack([cameras[name].pose[:, 3] for name in names])
    pairs = set(in_sequence(names))
    for index, name in enumerate(names):
        order = np.argsort(np.linalg.norm(eyes - eyes[index], axis=1), kind="stable")
        others = [names[other] for other in order[: NEAREST + 1] if other != index]
        pairs |= {sorted_pair(name, other) for other in others}
    return sorted(pairs)


def compare_poses(matches: Matches, cameras: Cameras, names: Mapping[str, str]) -> Matching:
    """Compare matches with camera poses.

    Args:
        matches: Verified matches of image pairs.
        cameras: Cameras of the images.
        names: Name of each image for findings.

    Returns:
        Facts and findings about the poses.
    """
    matches = {pair: some for pair, some in matches.items() if len(some) >= MATCHED}
    if not matches:
        return Matching(["matches    no two images match"], [])
    found = errors(matches, cameras)
    agreeing = agreeing_shares(found, cameras)
    error = float(np.median(np.concatenate([*found.values()])))
    count = sum(share >= FITS for share in agreeing.values())
    shown = f"{error:.2f} pixels" if np.isfinite(error) else "behind a camera"
    facts = [
        f"matches    {count} of {len(matches)} pairs of images agree with the camera poses; the "
        f"median epipolar error is {shown}"
    ]
    focal = _focal_findings(matches, cameras)
    if focal or (mean := float(np.mean([*agreeing.values()]))) >= FITS:
        return Matching(facts, focal or [*_wrong_cameras(matches, cameras, names, agreeing)])
    return Matching(facts, [_other_reading(matches, cameras, names, mean)])


def _sampled(matches: Matches) -> dict[Pair, npt.NDArray[np.float32]]:
    pairs = sorted(matches)
    return {
        pair: matches[pair][:: max(len(matches[pair]) // SAMPLED_MATCHES, 1)]
        for pair in pairs[:: max(len(pairs) // SAMPLED_PAIRS, 1)]
    }


def _fit(matches: Matches, cameras: Cameras) -> float:
    """Return the mean agreement of all pairs."""
    return float(np.mean([*agreements(matches, cameras).values()]))


def _other_reading(
    matches: Matches, cameras: Cameras, names: Mapping[str, str], mean: float
) -> str:
    """Describe how the poses contradict the images, with the reading of the poses that fits."""
    few = _sampled(matches)
    found = [(_fit(few, read(cameras)), text) for text, read in readings(cameras, names)]
    fit, text = max(found, key=lambda entry: entry[0])
    wrong = f"the camera poses contradict the images: {mean:.0%} of the matches agree with them"
    if fit < max(FITS, _fit(few, cameras) + BETTER):
        return f"{wrong}, and no other reading of the poses fits; estimate them again with capture"
    return f"{wrong}, but {fit:.0%} agree {text}"


def _focal_findings(matches: Matches, cameras: Cameras) -> list[str]:
    """Report the focal length with which the matches fit best, if it clearly differs."""
    few = _sampled(matches)

    def error(factor: float) -> float:
        found = np.concatenate([*errors(few, _with_focal(cameras, factor)).values()])
        return float(np.median(found)) / factor

    sizes = [error(factor) for factor in FOCAL_FACTORS]
    best, given = float(FOCAL_FACTORS[int(np.argmin(sizes))]), error(1.0)
    is_same = abs(best - 1) < SAME_FOCAL or min(sizes) > LOWER_ERROR * given
    if is_same or _fit(few, _with_focal(cameras, best)) < FITS:
        return []
    lens = next(iter(cameras.values())).lens
    return [
        f"the focal length is probably wrong: with {best * lens.fl_x:.0f} instead of "
        f"{lens.fl_x:.0f} pixels, the median epipolar error is {min(sizes):.2f} instead of "
        f"{given:.2f} pixels"
    ]


def _with_focal(cameras: Cameras, factor: float) -> dict[str, Camera]:
    found = {}
    for name, camera in cameras.items():
        lens = camera.lens
        scaled = replace(lens, fl_x=lens.fl_x * factor, fl_y=lens.fl_y * factor)
        found[name] = Camera(scaled, camera.pose)
    return found


def _wrong_cameras(
    matches: Matches, cameras: Cameras, names: Mapping[str, str], agreeing: Mapping[Pair, float]
) -> Iterable[str]:
    """Report single cameras that contradict their images, and exchanged images. `agreeing` contains
    the agreement of each pair."""
    wrong = _wrong_images(matches, agreeing)
    lines = []
    for one, other in combinations(wrong, 2):
        if one in wrong and other in wrong:
            swapped = {**cameras, **reordered(cameras, (one, other), (other, one))}
            shares = agreements(_of(matches, {one, other}), swapped)
            if not {one, other} & _wrong_images(matches, shares).keys():
                wrong = {name: at for name, at in wrong.items() if name not in (one, other)}
                lines.append(
                    f"{names[one]} and {names[other]} are exchanged: their matches agree with the "
                    "pose of the other image"
                )
    for name, agreement in wrong.items():
        line = f"the pose of {names[name]} is wrong: {agreement:.0%} of its matches agree with it"
        some = {p: m for p, m in _of(matches, {name}).items() if not wrong.keys() & ({*p} - {name})}
        turned, angle = _turned_camera(some, cameras, name) if some else (cameras[name], 0.0)
        fit = _fit(some, {**cameras, name: turned}) if some else 0.0
        if fit > max(FITS, agreement + BETTER):
            line += f", but {fit:.0%} agree if the camera is turned by {angle:.1f} degrees"
        lines.append(line)
    return summed_up(lines, "have poses that contradict their matches")


def _of(matches: Matches, wanted: set[str]) -> dict[Pair, npt.NDArray[np.float32]]:
    return {pair: some for pair, some in matches.items() if wanted & {*pair}}


def _wrong_images(matches: Matches, agreeing: Mapping[Pair, float]) -> dict[str, float]:
    """Return the images whose matches contradict their camera, with the fraction of the matches
    that agree, worst first. Each image is judged by its pairs with images that are not wrong."""
    wrong: dict[str, float] = {}
    while True:
        totals: dict[str, list[tuple[float, int]]] = {}
        for pair, share in agreeing.items():
            for name, other in (pair, pair[::-1]):
                if other not in wrong and name not in wrong:
                    totals.setdefault(name, []).append((share, len(matches[pair])))
        found = {
            name: sum(share * count for share, count in some) / sum(count for _, count in some)
            for name, some in totals.items()
            if len(some) >= MIN_PAIRS
        }
        worst = min(found, key=lambda name: found[name], default=None)
        if worst is None or found[worst] >= WRONG:
            return wrong
        wrong[worst] = found[worst]


def _turned_camera(matches: Matches, cameras: Cameras, name: str) -> tuple[Camera, float]:
    """Return the camera of an image turned so that its matches agree best, and the angle in
    degrees. The rotation is found by Gauss-Newton with a robust weight."""
    few, camera = _sampled(matches), cameras[name]
    rotation, eye = camera.pose[:, :3].astype(np.float64), camera.pose[:, 3]
    limit = tolerance(size_of(camera))

    def residuals(vector: Floats) -> Floats:
        turned = Camera(camera.lens, np.column_stack([_rotation(vector) @ rotation, eye]))
        found = np.concatenate([*errors(few, {**cameras, name: turned}).values()])
        return np.minimum(found, 1e3)

    vector, step = np.zeros(3), 1e-4
    for _ in range(ROUNDS):
        size = residuals(vector)
        slope = np.stack(
            [(residuals(vector + step * axis) - size) / step for axis in np.eye(3)], axis=1
        )
        weight = 1 / np.maximum(size, limit)
        normal = slope.T @ (weight[:, None] * slope) + 1e-6 * np.eye(3)
        vector = vector - np.linalg.solve(normal, slope.T @ (weight * size))
    turned = Camera(camera.lens, np.column_stack([_rotation(vector) @ rotation, eye]))
    return turned, float(np.degrees(np.linalg.norm(vector)))


def _rotation(vector: Floats) -> Floats:
    """Return the rotation matrix (3, 3) of an axis multiplied by an angle (Rodrigues)."""
    angle = float(np.linalg.norm(vector))
    if angle < 1e-12:
        return np.eye(3)
    x, y, z = vector / angle
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
