"""A picture of a scene's cameras and points and of its cube, from above and from the side.

It is drawn along the scene's `up`, the red arrow: all positions here are turned about the middle of
the cube so that `up` is z. The cameras are drawn as the frames that their pictures would fill a
little in front of them, the first blue and the last orange, in the order of their names; those held
out are grey. The green lines are the edges of the cube that is trained.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from nerfmac.common.files import appearing
from nerfmac.geometry.cameras import Camera
from nerfmac.scenes.poses import levelling
from nerfmac.scenes.scene import Scene

PANEL = 640
"""Pixels of a panel's side."""
OVERSAMPLING = 2
"""Everything is drawn so many times as large, then reduced: Pillow's lines have jagged edges."""
FIRST, LAST, HELD_OUT = (20, 90, 200), (225, 95, 20), (110, 110, 110)
POINT, CUBE, INK = (150, 165, 175), (30, 150, 80), (40, 40, 40)
UPWARDS = (200, 30, 60)
MARGIN = 0.12
WITHIN = 0.9
"""Of the points, this part has to be in the picture; far ones would make the cameras tiny."""
LONG = 0.05
"""How far in front of a camera its frame is, in sides of what cameras and points take up."""
WIDEST_CUBE = 6.0
"""In the same sides; a larger cube is not shown whole, for cameras would be tiny in it."""
EDGES = (0, 1, 3, 2, 0, 4, 5, 1, 5, 7, 3, 7, 6, 2, 6, 4)
"""Corners of a cube in an order that draws each edge; corner n is high along the axes of n's bits.
"""

Array = npt.NDArray[np.float64]
Colour = tuple[int, int, int]


def draw_scene(path: Path, scene: Scene) -> None:
    """Write the scene's picture to `path`, as PNG. Raises InputError where that is refused."""
    with appearing(path) as partial:
        scene_picture(scene).save(partial, "PNG")


def scene_picture(scene: Scene) -> Image.Image:
    """The picture of the scene's cameras and of its points, if it has any."""
    side = OVERSAMPLING * PANEL
    sheet = Image.new("RGB", (2 * side, side), "white")
    for panel, (axes, name) in enumerate((((0, 1), "from above"), ((0, 2), "from the side"))):
        image = _panel(scene, axes)
        draw = ImageDraw.Draw(image)
        draw.text((30, 24), f"{scene.name}, {name}", INK, font_size=13 * OVERSAMPLING)
        sheet.paste(image, (panel * side, 0))
    return sheet.resize((2 * PANEL, PANEL), Image.Resampling.BOX)


def camera_lines(scene: Scene) -> list[tuple[Colour, Array]]:
    """For each camera its colour, and the corners (11, 3) of the line that draws its frame.

    The line begins at the camera. They are in the order of the pictures' names.
    """
    frames = [(frame, split) for split, some in scene.splits.items() for frame in some]
    frames.sort(key=lambda pair: pair[0].name)
    length = LONG * 2 * _around(_eyes(scene), points_shown(scene))[1]
    return [
        (
            _between(index / max(len(frames) - 1, 1)) if split == "train" else HELD_OUT,
            _upright(scene, _frustum(frame.camera, length)),
        )
        for index, (frame, split) in enumerate(frames)
    ]


def cube_line(scene: Scene) -> Array:
    """The corners (16, 3) of a line along all edges of the scene's cube."""
    high = (np.array(EDGES)[:, None] >> np.arange(3)) & 1
    return _upright(scene, np.asarray(0.5 + scene.extent * (high - 0.5)))


def up_line(scene: Scene) -> Array:
    """The corners (5, 3) of an arrow upwards from the middle of what is drawn."""
    middle, half = shown(scene)
    tip, side = 0.4 * half, 0.04 * half
    corners = [
        [0, 0, 0],
        [0, 0, tip],
        [-side, 0, tip - 2 * side],
        [0, 0, tip],
        [side, 0, tip - 2 * side],
    ]
    return middle + np.array(corners)


def points_shown(scene: Scene) -> Array:
    """The scene's points (n, 3); there may be none."""
    return np.zeros((0, 3)) if scene.points is None else _upright(scene, scene.points)


def shown(scene: Scene) -> tuple[Array, float]:
    """The middle (3,) and half the side of what is drawn: cameras, most points, and the cube."""
    middle, half = _around(_eyes(scene), points_shown(scene))
    if not _has_room(scene, half):
        return middle, half
    cube = cube_line(scene)
    low = np.minimum(middle - half, cube.min(axis=0))
    high = np.maximum(middle + half, cube.max(axis=0))
    return (low + high) / 2, float((high - low).max()) / 2


def _has_room(scene: Scene, half: float) -> bool:
    return scene.extent <= WIDEST_CUBE * 2 * half


def _eyes(scene: Scene) -> Array:
    eyes = [frame.camera.pose[:, 3] for some in scene.splits.values() for frame in some]
    return _upright(scene, np.stack(eyes).astype(np.float64))


def _upright(scene: Scene, positions: Array) -> Array:
    """Scene positions (n, 3), turned about the middle of the cube so that `up` is z."""
    return np.asarray(0.5 + (positions - 0.5) @ levelling([], scene.up).T)


def _panel(scene: Scene, axes: tuple[int, int]) -> Image.Image:
    side, points, lines = OVERSAMPLING * PANEL, points_shown(scene), camera_lines(scene)
    middle, half = shown(scene)

    def place(positions: Array) -> Array:
        flat = (positions[..., axes] - middle[list(axes)]) / half
        return (flat * (1 - MARGIN) * [1, -1] + 1) * side / 2

    image = Image.new("RGB", (side, side), "white")
    draw = ImageDraw.Draw(image)
    for x, y in place(points):
        draw.rectangle([x - 1, y - 1, x + 1, y + 1], fill=POINT)
    draw.line([(x, y) for x, y in place(cube_line(scene))], CUBE, 2 * OVERSAMPLING)
    beyond = "" if _has_room(scene, half) else ", larger than this picture"
    text = f"the cube that is trained: side {scene.extent:g}{beyond}"
    draw.text((30, side - 56), text, CUBE, font_size=13 * OVERSAMPLING)
    for colour, line in lines:
        draw.line([(x, y) for x, y in place(line)], colour, OVERSAMPLING)
    if 2 in axes:
        arrow = [(x, y) for x, y in place(up_line(scene))]
        draw.line(arrow, UPWARDS, 2 * OVERSAMPLING)
        draw.text((arrow[1][0] + 24, arrow[1][1]), "up", UPWARDS, font_size=13 * OVERSAMPLING)
    return image


def _around(eyes: Array, points: Array) -> tuple[Array, float]:
    """The middle and half the side of what holds all cameras, and most points."""
    low, high = eyes.min(axis=0), eyes.max(axis=0)
    if len(points):
        # By their distance from the cameras' middle, since a few wrong points may be anywhere.
        away = np.linalg.norm(points - eyes.mean(axis=0), axis=1)
        near = points[away <= np.quantile(away, WITHIN)]
        low, high = np.minimum(low, near.min(axis=0)), np.maximum(high, near.max(axis=0))
    return (low + high) / 2, max(float((high - low).max()) / 2, 1e-3)


def _frustum(camera: Camera, length: float) -> Array:
    """A line (11, 3) from the camera along all edges to its picture `length` in front of it."""
    lens = camera.lens
    x = (np.array([0, lens.width, lens.width, 0]) - lens.cx) / lens.fl_x
    y = (lens.cy - np.array([0, 0, lens.height, lens.height])) / lens.fl_y
    corners = length * np.stack([x, y, -np.ones(4)], axis=1)
    local = np.concatenate([np.zeros((1, 3)), corners])[[0, 1, 2, 0, 3, 2, 3, 4, 1, 4]]
    local = np.concatenate([local, np.zeros((1, 3))])
    pose = camera.pose.astype(np.float64)
    return np.asarray(local @ pose[:, :3].T + pose[:, 3])


def _between(fraction: float) -> Colour:
    mixed = np.array(FIRST) + fraction * (np.array(LAST) - np.array(FIRST))
    red, green, blue = mixed.astype(int).tolist()
    return red, green, blue
