"""A scene in closed form, without symmetry: colors and distances from a camera."""

import numpy as np

from nerfmac.app.paths.view import View
from tests.pinhole import pixel_rays, sphere_hits

BALLS = (((1.6, 0.2, 2.1), 0.5, (0.9, 0.3, 0.1)), ((0.2, 1.7, 1.5), 0.6, (0.2, 0.7, 0.3)))
"""Center, radius and color."""
FLOOR = 0.5
"""Height of a floor that goes as far as one can see."""


def seen(view: View, width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    """Return colors, uint8 (h, w, 3), and distances, float32 (h, w); 0 for the background."""
    eye, ray = pixel_rays(view.camera(width, height))
    color = 0.5 + 0.4 * np.sin(ray * [2.0, 5.0, 4.0] + [0.0, 1.0, 2.0])
    distance = np.full(ray.shape[:2], np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        hit = np.where(ray[..., 2] < 0.0, (FLOOR - eye[2]) / ray[..., 2], np.inf)
    spot = eye + np.where(np.isfinite(hit), hit, 0.0)[..., None] * ray
    tiles = 0.5 + 0.3 * np.sin(2.0 * spot[..., :1] + 1.0) * np.cos(1.5 * spot[..., 1:2])
    is_floor = (hit > 0.0) & (hit < 12.0)
    color = np.where(is_floor[..., None], tiles * [1.0, 0.8, 0.6], color)
    distance = np.where(is_floor, hit, distance)
    for center, radius, paint in BALLS:
        hit = sphere_hits(eye, ray, center, radius)
        is_nearer = hit < distance
        spot = eye + np.where(is_nearer, hit, 0.0)[..., None] * ray
        normal = (spot - center) / radius
        light = 0.6 + 0.4 * normal @ np.array([0.4, 0.5, 0.7])
        color = np.where(is_nearer[..., None], light[..., None] * paint, color)
        distance = np.where(is_nearer, hit, distance)
    rgb = (np.clip(color, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)
    return rgb, np.where(np.isfinite(distance), distance, 0.0).astype(np.float32)
