"""By how much training has corrected its views, in numbers and in words."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.fields.field import Parameters
from nerfmac.training.corrections import COLOURS, EXPOSURES, LENSES, POSES, Corrections

MIDDLE = 0.5
"""A grey, by whose change a picture's map of colours is measured."""


def refined(corrections: Corrections, learned: Parameters) -> dict[str, Any]:
    """JSON values of what is corrected: the median and the largest correction of the views.

    Poses: degrees, and shifts in scene units, with what all cameras moved by together. Lenses, for
    each camera: how many views it took, the factor on its focal length, and what k1 and k2 gained.
    Exposures: stops, of the colour that changes most. Colours: the change of a middle grey, in
    [0, 1], in the channel that changes most. Empty if nothing is corrected.
    """
    found: dict[str, Any] = {}
    if POSES in learned:
        moves = np.array(corrections.moves(learned), np.float64)
        turned, shifted = (np.linalg.norm(each, axis=1) for each in (moves[:, :3], moves[:, 3:]))
        found["poses"] = {
            "degrees": _middle_and_most(np.degrees(turned)),
            "shift": _middle_and_most(shifted),
        }
    if LENSES in learned:
        changes = np.array(corrections.lenses.changes(learned[LENSES]), np.float64)
        views = np.bincount(np.array(corrections.lenses.of_views), minlength=len(changes))
        found["lenses"] = [
            {"views": int(count), "focal_factor": float(np.exp(focal)), "k1": k1, "k2": k2}
            for count, (focal, k1, k2) in zip(views, changes.tolist(), strict=True)
        ]
    if EXPOSURES in learned:
        stops = _without_mean(learned[EXPOSURES]) / np.log(2.0)
        found["exposures"] = {"stops": _middle_and_most(np.abs(stops).max(axis=1))}
    if COLOURS in learned:
        own = _without_mean(learned[COLOURS])
        grey = MIDDLE * own[:, :9].reshape(-1, 3, 3).sum(axis=2) + own[:, 9:]
        found["colours"] = {"grey": _middle_and_most(np.abs(grey).max(axis=1))}
    return found


def refined_in_words(found: dict[str, Any]) -> str:
    """What `refined` has found, as one line; nothing if nothing is corrected."""
    parts = []
    if poses := found.get("poses"):
        degrees, shift = poses["degrees"]["median"], poses["shift"]["median"]
        parts.append(f"poses by {degrees:.3f} degrees and {shift:.4f} scene units")
    if lenses := found.get("lenses"):
        factors = ", ".join(f"{lens['focal_factor']:.4f}" for lens in lenses[:3])
        parts.append(f"focal lengths by the factor {factors}{' ...' * (len(lenses) > 3)}")
    if exposures := found.get("exposures"):
        parts.append(f"exposures by {exposures['stops']['median']:.2f} stops")
    if colours := found.get("colours"):
        parts.append(f"colours by {colours['grey']['median']:.3f} of a middle grey")
    return f"refined, in the median: {'; '.join(parts)}" if parts else ""


def _without_mean(numbers: mx.array) -> npt.NDArray[np.float64]:
    each = np.array(numbers, np.float64)
    return np.asarray(each - each.mean(axis=0))


def _middle_and_most(values: npt.NDArray[np.float64]) -> dict[str, float]:
    return {"median": float(np.median(values)), "largest": float(values.max())}
