"""`RayBudget` adapts the number of rays per step to the number of samples per ray.

A step processes at most `march.max_samples` samples and measures the mean number of samples per
ray. At each sampler update, this measurement determines the next number of rays per step, so that
the samples of all rays almost reach `march.max_samples`.
"""

from typing import NamedTuple, Self

from nerfmac.config import Config

FILL = 0.95
"""Target number of samples per step, as a fraction of `march.max_samples`."""


class RayBudget(NamedTuple):
    """Limits on the number of samples and rays per training step."""

    max_samples: int
    max_rays: int

    @classmethod
    def of(cls, config: Config, max_rays: int | None = None) -> Self:
        """Return the limits in `config`. If `max_rays` is set, it is an additional limit on the
        rays."""
        most = config.train.max_rays
        return cls(config.march.max_samples, most if max_rays is None else min(most, max_rays))

    def rays(self, samples_per_ray: float) -> int:
        """Return the number of rays for which the expected number of samples is within the limit.

        The result is at most `max_rays`. Possible results are 2^(n / 8) for integers n, rounded to
        multiples of 16. MLX traces the step again for each new number of rays, and tracing takes
        half as long as a step, so the rounding limits the number of different results.
        """
        wanted = min(FILL * self.max_samples / max(samples_per_ray, 1e-3), self.max_rays)
        rays, rung = 16, 32
        while (above := round(2 ** (rung / 8) / 16) * 16) <= wanted:
            rays, rung = max(rays, above), rung + 1
        return rays

    def samples_per_ray(self, rays: int) -> float:
        """Return the number of samples per ray that `rays` rays need to reach the target number of
        samples."""
        return FILL * self.max_samples / rays
