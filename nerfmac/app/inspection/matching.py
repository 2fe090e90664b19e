"""Comparison of given camera poses with the images, by matching features.

The epipolar errors of matches reveal poses that do not belong to the images. If most pairs of
images contradict the poses, other readings of the poses are tried: other camera axes, a mirrored
world, inverse matrices, and another order of the images. A reading that fits is the explanation.
"""

import tempfile
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tqdm.auto import tqdm

from nerfmac.app.capture import two_views
from nerfmac.app.capture.capture import need_pycolmap
from nerfmac.app.capture.inputs import CapturedImage
from nerfmac.app.capture.pairs import MATCHED, in_sequence, sorted_pair
from nerfmac.app.capture.structure import STEPS, Solver
from nerfmac.app.capture.two_views import CameraMap, Matches, Pair, agreements, tolerance
from nerfmac.app.inspection.images import shown_names, summed_up
from nerfmac.app.inspection.pose_readings import SURE, all_readings, fitted_intrinsics, sampled
from nerfmac.app.scenes import Frame, Scene
from nerfmac.app.scenes.scene import IDENTITY
from nerfmac.common import Float64Array
from nerfmac.geometry import Camera, Lens, Placement

LABELS = STEPS | {"images": "reading images"}
"""Text of the progress bar of each stage."""
EVERY_BELOW = 40  # Number of images up to which all pairs are matched.
NEAREST = 6  # Number of nearest cameras that are matched in addition to the next images.
FITS = 0.5  # Minimum fraction of the matches of a pair that agrees with its cameras.
MANY_BEHIND = 0.25  # Fraction of the matches behind a camera that is reported.
INEXACT, STANDS_OUT = 3.0, 0.3
"""Maximum median error of poses that belong to the images, in degrees, and relative to the median
error of all other readings. Poses of ARKit have errors of up to 2 degrees and 3 centimeters."""
MUCH_WORSE = 4.0
"""Ratio of the errors of wrong matches to the median error, if this is more than the tolerance."""
SIMILAR = 1.15  # Maximum ratio of the errors of two readings of which the simpler one is reported.
WRONG = 0.4  # Agreement of the matches of an image below which its camera is wrong.
MIN_PAIRS = 3  # Minimum number of pairs of an image whose camera is judged.
LOWER_ERROR = 0.6  # Maximum ratio of the error with other intrinsics to the error with the given.
SAME_FOCAL, SAME_EDGE, SAME_CENTER = 0.035, 0.02, 0.025
"""Changes that are not reported: of the log focal length, of the image edge by distortion relative
to its distance from the center, and of the principal point relative to the image size."""
CHANGES = ([0], [1], [2, 3], [0, 1], [0, 1, 2, 3])
"""Parameters of `Intrinsics` that are changed together, the simplest changes first."""


Report = tuple[list[str], list[str]]
"""Facts, lines that describe the number of matched pairs and their errors, and findings, lines that
describe poses that contradict the images."""


def match_scene(scene: Scene, *, progress: bool = True) -> Report:
    """Match the images of a scene, and compare the matches with the camera poses.

    Args:
        scene: Scene with images. Requires the extra `capture`.
        progress: Whether to show progress bars.

    Returns:
        Facts and findings about the poses.

    Raises:
        InputError: If pycolmap is not installed, or an image cannot be decoded.
    """
    need_pycolmap()
    frames = list(dict.fromkeys(frame for some in scene.splits.values() for frame in some))
    shown = dict(zip(frames, shown_names(scene, frames), strict=True))
    frames.sort(key=lambda frame: shown[frame])
    named = {f"{number:05}.jpg": frame for number, frame in enumerate(frames)}
    cameras = {name: frame.camera for name, frame in named.items()}
    names = {name: shown[frame] for name, frame in named.items()}
    with tempfile.TemporaryDirectory() as folder:
        solver = _solver_of(named, Path(folder), progress)
        matches = solver.matches_of(pairs_to_match(cameras))
    return compare_poses(matches, cameras, names, scene.placement)


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


def pairs_to_match(cameras: CameraMap) -> list[Pair]:
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


def compare_poses(
    matches: Matches, cameras: CameraMap, names: Mapping[str, str], placement: Placement = IDENTITY
) -> Report:
    """Compare matches with camera poses.

    Args:
        matches: Verified matches of image pairs.
        cameras: Cameras of the images, in scene coordinates.
        names: Name of each image for findings.
        placement: Transform from file coordinates to scene coordinates.

    Returns:
        Facts and findings about the poses.
    """
    matches = {pair: some for pair, some in matches.items() if len(some) >= MATCHED}
    if not matches:
        return ["matches    no two images match"], []
    agreeing = agreements(matches, cameras)
    lenses = {name: cameras[name].lens for name in sorted(cameras)}
    poses = np.stack([cameras[name].pose for name in lenses]).astype(np.float64)
    eyes = placement.to_file(poses[:, :, 3])  # The readings are those of the scene files.
    poses = np.concatenate([placement.rotation.T @ poses[:, :, :3], eyes[..., None]], axis=2)
    rays = two_views.rays_of(sampled(matches), lenses)
    found = two_views.errors_of(rays, poses, sure=SURE)[:, 0]
    behind, error = float(np.isinf(found).mean()), float(np.median(found))
    shown = f"the median epipolar error is {error:.2f} pixels"
    if behind > MANY_BEHIND:
        shown = f"{behind:.0%} of the matches intersect behind a camera"
    count = sum(share >= FITS for share in agreeing.values())
    counted = f"{count} of {len(matches)} pairs of images agree with the camera poses"
    facts = [f"matches    {counted}; {shown}"]
    is_exact = error <= tolerance(_largest(lenses)) and count >= FITS * len(matches)
    ordered = [names[name] for name in lenses]
    others = [] if is_exact else all_readings(rays, poses, ordered)
    best = min((other.error for other in others), default=np.inf)
    near = np.radians(INEXACT) * float(np.median(rays.focal))
    if others:  # Poses that belong to the images stand out among all other readings.
        near = min(near, STANDS_OUT * float(np.median([other.error for other in others])))
    if best <= near and best < STANDS_OUT * error:
        text = next(other.text for other in others if other.error <= SIMILAR * best)
        line = f"the camera poses contradict the images; they fit if {text}"
        return facts, [f"{line}: the median epipolar error is then {best:.2f} pixels"]
    if findings := _intrinsics_findings(matches, lenses, poses, error):
        return facts, findings
    if is_exact or error <= near:
        findings = _wrong_cameras(matches, cameras, names, MUCH_WORSE * error)
        if not is_exact:
            angle = np.degrees(error / np.median(rays.focal))
            share = error / max(_largest(lenses).size)
            findings.append(
                f"the camera poses are inexact: the median epipolar error is {angle:.2g} degrees, "
                f"or {share:.1%} of the image size; train with --refine.poses, which corrects them"
            )
        return facts, findings
    mean = float(np.mean([*agreeing.values()]))
    wrong = f"the camera poses contradict the images: {mean:.0%} of the matches agree with them"
    advice = "and no other reading of the poses fits; estimate them again with capture"
    return facts, [f"{wrong}, {advice}"]


def _largest(lenses: Mapping[str, Lens]) -> Lens:
    return max(lenses.values(), key=lambda lens: lens.size)


def _intrinsics_findings(
    matches: Matches, lenses: Mapping[str, Lens], poses: Float64Array, given: float
) -> list[str]:
    """Report the simplest change of the intrinsics with which the matches fit clearly better.
    `given` is the error of the given intrinsics."""
    found = [fitted_intrinsics(matches, lenses, poses, free) for free in CHANGES]
    smallest = min(change.error for change in found)
    if smallest > min(LOWER_ERROR * given, tolerance(_largest(lenses))):
        return []
    best = next(change for change in found if change.error <= SIMILAR * smallest)
    lens = next(iter(lenses.values()))
    after, shown = best.applied(lens), []
    if abs(np.log(best.focal)) > SAME_FOCAL:
        shown.append(f"the focal length {after.fl_x:.0f} instead of {lens.fl_x:.0f} pixels")
    if abs(best.k1) * (lens.width / 2 / lens.fl_x) ** 2 > SAME_EDGE:
        shown.append(f"the distortion k1 = {after.k1:.2g} instead of {lens.k1:.2g}")
    if max(abs(best.x), abs(best.y)) > SAME_CENTER:
        center = f"({after.cx:.0f}, {after.cy:.0f}) instead of ({lens.cx:.0f}, {lens.cy:.0f})"
        shown.append(f"the principal point {center}")
    if not shown:
        return []
    return [
        f"the camera intrinsics are probably wrong: with {' and '.join(shown)}, the median "
        f"epipolar error is {best.error:.2f} instead of {given:.2f} pixels"
    ]


def _wrong_cameras(
    matches: Matches, cameras: CameraMap, names: Mapping[str, str], limit: float
) -> list[str]:
    """Report single cameras that contradict their images, and exchanged images. Matches with an
    error of at most `limit` pixels agree, or those within the tolerance."""
    wrong, lines = _wrong_images(matches, cameras, limit), []
    for one, other in combinations(wrong, 2):
        if one in wrong and other in wrong:
            poses = {one: cameras[other].pose, other: cameras[one].pose}
            exchanged = {name: Camera(cameras[name].lens, pose) for name, pose in poses.items()}
            some = {pair: m for pair, m in matches.items() if {one, other} & {*pair}}
            if not {one, other} & _wrong_images(some, {**cameras, **exchanged}, limit).keys():
                wrong = {name: at for name, at in wrong.items() if name not in (one, other)}
                lines.append(
                    f"{names[one]} and {names[other]} are exchanged: their matches agree with the "
                    "pose of the other image"
                )
    lines += [
        f"the pose of {names[name]} is wrong: {agreement:.0%} of its matches agree with it"
        for name, agreement in wrong.items()
    ]
    return summed_up(lines, "have poses that contradict their matches")


def _wrong_images(matches: Matches, cameras: CameraMap, limit: float) -> dict[str, float]:
    """Return the images whose matches contradict their camera, with the fraction of the matches
    that agree, worst first. Each image is judged by its pairs with images that are not wrong."""
    agreeing = agreements(matches, cameras, limit)
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
