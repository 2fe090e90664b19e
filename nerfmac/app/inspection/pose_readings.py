"""Other readings of camera poses: conventions and orders that a scene file may have used."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import permutations, product

import numpy as np
import numpy.typing as npt

from nerfmac.geometry import Camera

Floats = npt.NDArray[np.float64]
Cameras = Mapping[str, Camera]
Reading = tuple[str, Callable[[Cameras], dict[str, Camera]]]


def readings(cameras: Cameras, names: Mapping[str, str]) -> Iterable[Reading]:
    """Yield descriptions of other readings of the poses, and functions that apply them."""
    for axes, signs in product(permutations(range(3)), product((1, -1), repeat=3)):
        turn = np.eye(3)[:, list(axes)] * signs
        is_mirrored = np.linalg.det(turn) < 0
        for is_inverse in (False, True):
            if is_mirrored or is_inverse or not np.array_equal(turn, np.eye(3)):
                text = _described(turn, is_inverse)
                yield text, partial(_with_axes, turn=turn, is_inverse=is_inverse)
    for signs in product((1, -1), repeat=3):
        negated = [letter for letter, sign in zip("xyz", signs, strict=True) if sign < 0]
        if negated:
            text = f"if the {' and '.join(negated)} coordinates of the positions are negated"
            yield text, partial(_with_positions, signs=np.array(signs))
    order = sorted(cameras)
    for sources, text in (
        (order[1:] + order[:1], "if each image has the pose of the next image"),
        (order[-1:] + order[:-1], "if each image has the pose of the previous image"),
        (order[::-1], "if the poses are in the reverse order of the images"),
    ):
        yield text, partial(reordered, order=order, sources=sources)
    # Programs that sort names as text place 10.jpg before 9.jpg.
    as_text = sorted(order, key=lambda name: names[name])
    as_numbers = sorted(order, key=lambda name: _numbers_in(names[name]))
    for first, second, text in ((as_text, as_numbers, "text"), (as_numbers, as_text, "numbers")):
        if as_text != as_numbers:
            shown = f"if the poses are in the order of the names sorted as {text}"
            yield shown, partial(reordered, order=second, sources=first)


def _numbers_in(name: str) -> list[tuple[int, str]]:
    parts = "".join(c if c.isdigit() else f" {c} " for c in name).split()
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def _described(turn: Floats, is_inverse: bool) -> str:
    """Describe a reading with other camera axes, as the axes that the poses then have."""
    if np.array_equal(turn, np.diag([1.0, -1.0, -1.0])):
        axes = "if the camera axes are those of OpenCV (x right, y down, z forward)"
    elif np.linalg.det(turn) < 0:
        axes = "if the world is mirrored: one axis is negated or two axes are swapped"
    elif np.array_equal(turn, np.eye(3)):
        axes = ""
    else:
        letters = ["xyz"[int(np.argmax(np.abs(column)))] for column in turn.T]
        signs = ["-" if column.sum() < 0 else "" for column in turn.T]
        shown = ", ".join(f"{sign}{letter}" for sign, letter in zip(signs, letters, strict=True))
        axes = f"if right, up, and backward are the camera axes {shown}"
    inverse = "if the matrices map world to camera coordinates" if is_inverse else ""
    return " and ".join(filter(None, (inverse, axes)))


def _with_axes(cameras: Cameras, turn: Floats, is_inverse: bool) -> dict[str, Camera]:
    """Return cameras with other camera axes. If `turn` is a reflection, the world is reflected
    too, so that the poses remain rotations."""
    found = {}
    for name, camera in cameras.items():
        pose = camera.pose.astype(np.float64)
        rotation, eye = pose[:, :3], pose[:, 3]
        if is_inverse:
            rotation, eye = rotation.T, -rotation.T @ eye
        mirror = np.diag([np.sign(np.linalg.det(turn)), 1.0, 1.0])
        found[name] = Camera(camera.lens, np.column_stack([mirror @ rotation @ turn, mirror @ eye]))
    return found


def _with_positions(cameras: Cameras, signs: npt.NDArray[np.int_]) -> dict[str, Camera]:
    return {
        name: Camera(camera.lens, camera.pose * np.column_stack([np.ones((3, 3)), signs]))
        for name, camera in cameras.items()
    }


def reordered(cameras: Cameras, order: Sequence[str], sources: Sequence[str]) -> dict[str, Camera]:
    """Return cameras where each image in `order` has the pose of the image in `sources`."""
    return {
        name: Camera(cameras[name].lens, cameras[source].pose)
        for name, source in zip(order, sources, strict=True)
    }
