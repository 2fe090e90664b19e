"""Drawing of the cameras, points, and cube of a scene, from above and from the side. All positions
are rotated around the center of the cube so that the up direction of the scene becomes z."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from nerfmac.app.scenes.placement import leveling
from nerfmac.app.scenes.scene import Scene
from nerfmac.common import Float64Array, appearing
from nerfmac.geometry import Camera

PANEL = 640  # Side length in pixels of the square panel of each viewing direction.
OVERSAMPLING = 2  # Supersampling factor, because Pillow draws without antialiasing.
FONT_SIZE = 13 * OVERSAMPLING
FIRST, LAST, HELD_OUT = (20, 90, 200), (225, 95, 20), (110, 110, 110)
POINT, CUBE, INK = (150, 165, 175), (30, 150, 80), (40, 40, 40)
UPWARDS = (200, 30, 60)
LEGEND = 330 * OVERSAMPLING  # Width of the legend in pixels of the supersampled image.
MARGIN = 0.12
WITHIN = 0.9
"""Fraction of the points that the image must show. Distant points would make the cameras tiny."""
FRUSTUM = 0.07
"""Length of a camera frustum, relative to the side length of the box around cameras and points."""
WIDEST_CUBE = 1.5  # Larger cubes, relative to the box around cameras and points, are cropped.
EDGES = (0, 1, 3, 2, 0, 4, 5, 1, 5, 7, 3, 7, 6, 2, 6, 4)
"""Polyline along all edges of a cube. Bit k of an index is 1 at the larger coordinate on axis k."""

Color = tuple[int, int, int]


def draw_scene(path: Path, scene: Scene) -> None:
    """Draw a scene to a PNG file."""
    with appearing(path) as partial:
        scene_image(scene).save(partial, "PNG")


def scene_image(scene: Scene) -> Image.Image:
    """Return a drawing of the cameras, points, and cube of a scene."""
    side = OVERSAMPLING * PANEL
    sheet = Image.new("RGB", (2 * side, side), "white")
    for panel, (axes, name) in enumerate((((0, 1), "from above"), ((0, 2), "from the side"))):
        image = _panel(scene, axes)
        text = f"{scene.name}, {name}"
        ImageDraw.Draw(image).text((30, 24), text, INK, font_size=FONT_SIZE)
        sheet.paste(image, (panel * side, 0))
    _draw_legend(ImageDraw.Draw(sheet), scene)
    return sheet.resize((2 * PANEL, PANEL), Image.Resampling.BOX)


def camera_lines(scene: Scene) -> list[tuple[Color, Float64Array]]:
    """Return the color and the frustum, the vertices (11, 3) of a polyline, of each camera, in name
    order."""
    frames = [(frame, split) for split, part in scene.splits.items() for frame in part]
    frames.sort(key=lambda pair: pair[0].name)
    length = FRUSTUM * 2 * _around(_eyes(scene), points_shown(scene))[1]
    fractions = np.linspace(0.0, 1.0, len(frames))
    colors = [
        _between(fraction) if split == "train" else HELD_OUT
        for fraction, (_, split) in zip(fractions.tolist(), frames, strict=True)
    ]
    lines = [_upright(scene, _frustum(frame.camera, length)) for frame, _ in frames]
    return list(zip(colors, lines, strict=True))


def cube_line(scene: Scene) -> Float64Array:
    """Return the vertices (16, 3) of a polyline along all edges of the scene cube."""
    high = (np.array(EDGES)[:, None] >> np.arange(3)) & 1
    return _upright(scene, np.asarray(0.5 + scene.extent * (high - 0.5)))


def up_line(scene: Scene) -> Float64Array:
    """Return the vertices (5, 3) of an arrow from the image center in the up direction."""
    middle, half = shown(scene)
    tip, side = 0.4 * half, 0.04 * half
    barb = tip - 2 * side
    corners = [[0, 0, 0], [0, 0, tip], [-side, 0, barb], [0, 0, tip], [side, 0, barb]]
    return middle + np.array(corners)


def points_shown(scene: Scene) -> Float64Array:
    """Return the sparse points (n, 3), rotated so that the up direction is z; n may be 0."""
    return np.zeros((0, 3)) if scene.points is None else _upright(scene, scene.points)


def shown(scene: Scene) -> tuple[Float64Array, float]:
    """Return the center (3,) and half the side length of the box that the image shows. The box
    contains the cameras, most points and, unless it is too large, the cube."""
    middle, half = _around(_eyes(scene), points_shown(scene))
    if not _fits(scene, half):
        return middle, half
    cube = cube_line(scene)
    low = np.minimum(middle - half, cube.min(axis=0))
    high = np.maximum(middle + half, cube.max(axis=0))
    return (low + high) / 2, float((high - low).max()) / 2


def _fits(scene: Scene, half: float) -> bool:
    return scene.extent <= WIDEST_CUBE * 2 * half


def _eyes(scene: Scene) -> Float64Array:
    eyes = [frame.camera.pose[:, 3] for part in scene.splits.values() for frame in part]
    return _upright(scene, np.stack(eyes).astype(np.float64))


def _upright(scene: Scene, positions: Float64Array) -> Float64Array:
    """Rotate scene positions (n, 3) around the center of the cube so that `up` becomes z."""
    return np.asarray(0.5 + (positions - 0.5) @ leveling([], scene.up).T)


def _panel(scene: Scene, axes: tuple[int, int]) -> Image.Image:
    side = OVERSAMPLING * PANEL
    middle, half = shown(scene)
    image = Image.new("RGB", (side, side), "white")
    draw = ImageDraw.Draw(image)

    def pixels(positions: Float64Array) -> list[tuple[float, float]]:
        flat = (positions[..., axes] - middle[list(axes)]) / half
        return [(x, y) for x, y in (flat * (1 - MARGIN) * [1, -1] + 1) * side / 2]

    for x, y in pixels(points_shown(scene)):
        draw.rectangle([x - 1, y - 1, x + 1, y + 1], fill=POINT)
    draw.line(pixels(cube_line(scene)), CUBE, 2 * OVERSAMPLING)
    suffix = "" if _fits(scene, half) else ", larger than this image"
    text = f"scene cube: side {scene.extent:g}{suffix}"
    draw.text((30, side - 56), text, CUBE, font_size=FONT_SIZE)
    for color, line in camera_lines(scene):
        draw.line(pixels(line), color, OVERSAMPLING)
    if 2 in axes:
        arrow = pixels(up_line(scene))
        draw.line(arrow, UPWARDS, 2 * OVERSAMPLING)
        draw.text((arrow[1][0] + 24, arrow[1][1]), "up", UPWARDS, font_size=FONT_SIZE)
    return image


def _draw_legend(draw: ImageDraw.ImageDraw, scene: Scene) -> None:
    held_out = sum(len(part) for name, part in scene.splits.items() if name != "train")
    lines = [
        (FIRST, f"{len(scene.splits['train'])} training cameras: first by name"),
        (LAST, "last by name"),
        (HELD_OUT, f"{held_out} held-out cameras" if held_out else ""),
        (POINT, f"{len(points_shown(scene))} sparse points" if len(points_shown(scene)) else ""),
        (CUBE, "edges of the scene cube" if _fits(scene, shown(scene)[1]) else ""),
    ]
    shown_lines = [(color, text) for color, text in lines if text]
    left, step = 2 * OVERSAMPLING * PANEL - LEGEND, FONT_SIZE + 8
    for number, (color, text) in enumerate(shown_lines):
        y = 24 + number * step
        draw.rectangle([left, y + 4, left + FONT_SIZE, y + FONT_SIZE], fill=color)
        draw.text((left + 2 * FONT_SIZE, y), text, INK, font_size=FONT_SIZE)


def _around(eyes: Float64Array, points: Float64Array) -> tuple[Float64Array, float]:
    """Return the center (3,) and half the side of the box around all cameras and most points."""
    low, high = eyes.min(axis=0), eyes.max(axis=0)
    if len(points):
        # Points are selected by their distance from the mean camera position, because outliers may
        # be anywhere.
        distance = np.linalg.norm(points - eyes.mean(axis=0), axis=1)
        near = points[distance <= np.quantile(distance, WITHIN)]
        low, high = np.minimum(low, near.min(axis=0)), np.maximum(high, near.max(axis=0))
    return (low + high) / 2, max(float((high - low).max()) / 2, 1e-3)


def _frustum(camera: Camera, length: float) -> Float64Array:
    """Return the vertices (11, 3) of a polyline from the camera along all edges of its frustum."""
    lens = camera.lens
    x = (np.array([0, lens.width, lens.width, 0]) - lens.cx) / lens.fl_x
    y = (lens.cy - np.array([0, 0, lens.height, lens.height])) / lens.fl_y
    corners = length * np.stack([x, y, -np.ones(4)], axis=1)
    line = np.concatenate([np.zeros((1, 3)), corners])[[0, 1, 2, 0, 3, 2, 3, 4, 1, 4, 0]]
    pose = camera.pose.astype(np.float64)
    return np.asarray(line @ pose[:, :3].T + pose[:, 3])


def _between(fraction: float) -> Color:
    mixed = np.array(FIRST) + fraction * (np.array(LAST) - np.array(FIRST))
    red, green, blue = mixed.astype(int).tolist()
    return red, green, blue
