"""A view to move in tests: up is no axis, the center is not the origin, no axis is looked along."""

import math

import numpy as np

from nerfmac.app.paths.view import View
from nerfmac.geometry.lenses import Lens

UP = np.array([0.3, -0.5, 0.8]) / math.sqrt(0.98)
CENTER = np.array([0.4, 0.7, -0.3])
EYE = np.array([1.9, -0.4, 0.9])
FOV = 0.8
LENS = Lens(40, 30, 35.0, 34.0, 19.0, 16.0, k1=0.1)


def level() -> View:
    """A view of CENTER from EYE without roll."""
    back = (EYE - CENTER) / np.linalg.norm(EYE - CENTER)
    right = np.cross(UP, back) / np.linalg.norm(np.cross(UP, back))
    return View(np.c_[right, np.cross(back, right), back, EYE], CENTER, UP, FOV)


def rolled(view: View, angle: float) -> np.ndarray:
    """The view's pose turned about its line of sight."""
    cos, sin = math.cos(angle), math.sin(angle)
    roll = np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]])
    return np.c_[view.pose[:, :3] @ roll, view.pose[:, 3]]


def seen(view: View, point) -> np.ndarray:
    """Where `point` is in the image, from its middle, in heights: x right, y down."""
    x, y, z = view.pose[:, :3].T @ (np.asarray(point) - view.pose[:, 3])
    return np.array([x, -y]) / -z * 0.5 / math.tan(0.5 * view.fov)
