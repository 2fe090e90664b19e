"""The training error of each view, from the rays of the training steps, without rendering."""

import numpy as np

from nerfmac.training.step import ERROR_SCALE, RayErrors

MEMORY = 60  # Number of reports after which the weight of a ray is reduced to 1 / e.
MIN_RAYS = 30.0  # Minimum weight of the rays of a view, in rays, for a PSNR.


class ViewErrors:
    """Mean squared errors of the training views, with exponentially decaying weights."""

    def __init__(self, views: int) -> None:
        self._errors, self._weights = np.zeros(views), np.zeros(views)

    def add(self, rays: RayErrors) -> None:
        """Add the rays of a step."""
        view, error, mask = (np.array(values).ravel() for values in rays)
        kept = np.exp(-1.0 / MEMORY)
        sums = np.bincount(view, ERROR_SCALE * error * mask, len(self._errors))
        self._errors = kept * self._errors + sums
        self._weights = kept * self._weights + np.bincount(view, mask, len(self._weights))

    @property
    def psnr(self) -> list[float | None]:
        """PSNR of each view in dB, rounded to 0.1 dB, or None if too few of its rays are known."""
        errors = np.maximum(self._errors / np.maximum(self._weights, 1e-9), 1e-10)
        values = np.round(-10.0 * np.log10(errors), 1)
        pairs = zip(values.tolist(), self._weights, strict=True)
        return [value if weight >= MIN_RAYS else None for value, weight in pairs]
