"""Report on how much refinement has changed the views, as JSON values and as a line of text."""

from typing import Any

import mlx.core as mx
import numpy as np

from nerfmac.common import Float64Array
from nerfmac.fields.field import Parameters
from nerfmac.refine import lenses, refinement as refine

GRAY = 0.5
"""Gray value in [0, 1]. The report contains how much color maps change this value."""


def refinement_report(
    refinement: refine.CameraRefinement, parameters: Parameters
) -> dict[str, Any]:
    """Return the median and maximum changes over the views as JSON values.

    If nothing is refined, the result is an empty dictionary. The possible keys are:

    - `poses`: rotation in `degrees` and `shift` in scene units, including motion that all cameras
      share, and the motion of the image in `pixels`, without this shared motion.
    - `lenses`: for each lens, the number of `views`, the `focal_factor`, and the changes of `k1`
      and `k2`.
    - `exposures`: change in `stops` of the color channel that changes most.
    - `depth`: `scale` of all measured depths, and their `shift` in scene units.
    - `colors`: change of medium `gray`, in [0, 1], in the channel that changes most.

    The mean exposure and the mean color map of the views are subtracted from exposures and colors.
    """
    report: dict[str, Any] = {}
    if refine.POSES in parameters:
        deltas = np.array(refinement.pose_deltas(parameters), np.float64)
        angles, shifts = (np.linalg.norm(part, axis=1) for part in (deltas[:, :3], deltas[:, 3:]))
        report["poses"] = {
            "degrees": _median_and_largest(np.degrees(angles)),
            "shift": _median_and_largest(shifts),
            "pixels": _median_and_largest(_pixels(refinement, parameters)),
        }
    if refine.LENSES in parameters:
        changes = np.array(refinement.lenses.changes(parameters[refine.LENSES]), np.float64)
        views = np.bincount(np.array(refinement.lenses.of_views), minlength=len(changes))
        report["lenses"] = [
            {"views": int(count), "focal_factor": float(np.exp(focal)), "k1": k1, "k2": k2}
            for count, (focal, k1, k2) in zip(views, changes.tolist(), strict=True)
        ]
    if refine.EXPOSURES in parameters:
        stops = _without_mean(parameters[refine.EXPOSURES]) / np.log(2.0)
        report["exposures"] = {"stops": _median_and_largest(np.abs(stops).max(axis=1))}
    if refine.COLORS in parameters:
        maps = _without_mean(parameters[refine.COLORS])
        gray = GRAY * maps[:, :9].reshape(-1, 3, 3).sum(axis=2) + maps[:, 9:]
        report["colors"] = {"gray": _median_and_largest(np.abs(gray).max(axis=1))}
    if refine.DEPTH_SCALE in parameters:
        log_scale, shift = np.array(parameters[refine.DEPTH_SCALE], np.float64).tolist()
        report["depth"] = {"scale": float(np.exp(log_scale)), "shift": shift}
    return report


def refinement_summary(report: dict[str, Any]) -> str:
    """Summarize a `refinement_report` in one line, with medians and up to three focal factors. The
    line is empty if the report is empty."""
    parts = []
    if poses := report.get("poses"):
        parts.append(f"poses by {poses['pixels']['median']:.2f} pixels")
    if lenses := report.get("lenses"):
        factors = ", ".join(f"{lens['focal_factor']:.4f}" for lens in lenses[:3])
        parts.append(f"focal lengths by the factor {factors}{' ...' * (len(lenses) > 3)}")
    if exposures := report.get("exposures"):
        parts.append(f"exposures by {exposures['stops']['median']:.2f} stops")
    if colors := report.get("colors"):
        parts.append(f"colors by {colors['gray']['median']:.3f} of a middle gray")
    if depth := report.get("depth"):
        parts.append(f"depths by the factor {depth['scale']:.4f}")
    return f"refined, in the median: {'; '.join(parts)}" if parts else ""


def _pixels(refinement: refine.CameraRefinement, parameters: Parameters) -> Float64Array:
    """Return how far refined poses move the images, in pixels (views,), after the refined cameras
    have been aligned with the initial cameras."""
    initial = refinement.initial
    assert initial is not None
    refined = np.array(refinement.cameras(parameters).poses, np.float64)
    before = np.array(initial.poses, np.float64)
    after = refine.align_poses(refined, refined, before)
    turn = after[:, :, :3] @ before[:, :, :3].swapaxes(1, 2)
    # Rotation vectors of small rotations.
    skew = 0.5 * (turn - turn.swapaxes(1, 2))
    vectors = np.stack([skew[:, 2, 1], skew[:, 0, 2], skew[:, 1, 0]], axis=1)
    shifts = after[:, :, 3] - before[:, :, 3]
    return lenses.image_motion(initial, np.concatenate([vectors, shifts], axis=1))


def _without_mean(values: mx.array) -> Float64Array:
    numbers = np.array(values, np.float64)
    return np.asarray(numbers - numbers.mean(axis=0))


def _median_and_largest(values: Float64Array) -> dict[str, float]:
    return {"median": float(np.median(values)), "largest": float(values.max())}
