"""Scenes as users have them: rendered views with known cameras, written with combinations of names,
image formats, conventions, and gaps."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from allpairspy import AllPairs

from nerfmac.geometry import Camera, Lens
from tests.variety import paths
from tests.variety.worlds import World, ground, rectangle, room, table

WIDTH, HEIGHT = 64, 48
OPENCV = np.array([1.0, -1.0, -1.0, 1.0])
"""Factors of the columns of a pose with OpenGL axes, for OpenCV axes."""
FACTORS: dict[str, tuple[str, ...]] = {
    "format": (
        *("instant-ngp", "nerfstudio", "blender", "colmap binary", "colmap text"),
        *("llff", "polycam", "record3d", "nsvf", "neus"),
    ),
    "subject": ("object", "room", "plane", "forward-facing"),
    "views": ("4", "9", "12"),
    "names": ("padded", "numbers", "blanks", "unicode", "upper case", "quotes and #", "hash"),
    "folder": ("usual", "nested", "with blanks", "of a mask"),
    "image": ("png", "jpg", "webp", "png named jpg", "16 bits", "palette", "opaque alpha"),
    "orientation": ("upright", "turned"),
    "profile": ("none", "sRGB"),
    "units": ("1", "100", "0.02"),
    "origin": ("center", "far"),
    "up": ("z", "y"),
    "intrinsics": ("shared", "per frame", "field of view", "matrix", "double size"),
    "distortion": ("none", "k1"),
    "depth": ("none", "millimeters", "meters", "along the ray", "marker"),
    "holes": ("none", "a photo", "a camera", "a depth image"),
    "masks": ("none", "beside", "listed"),
}
"""Factors that are combined, with their values. The first value of each is the usual one."""
JSON_FORMATS = ("instant-ngp", "nerfstudio")
SUPPORTED = {
    "names": dict.fromkeys(FACTORS["format"], FACTORS["names"])
    | {"record3d": ("numbers",), "polycam": ("padded", "numbers", "hash"), "nsvf": ("padded",)}
    # COLMAP's text format cannot hold blanks or comments.
    | {"colmap text": ("padded", "numbers", "unicode", "upper case", "hash")}
    | dict.fromkeys(
        ("llff", "neus"), ("padded", "blanks", "unicode", "upper case", "quotes and #")
    ),
    "folder": dict.fromkeys((*JSON_FORMATS, "blender"), FACTORS["folder"])
    | {"colmap binary": ("usual", "nested"), "colmap text": ("usual", "nested")},
    "intrinsics": dict.fromkeys(JSON_FORMATS, FACTORS["intrinsics"])
    | {"blender": ("field of view",), "llff": ("shared", "double size")}
    | dict.fromkeys(
        ("colmap binary", "colmap text", "polycam"), ("shared", "per frame", "double size")
    )
    | {"record3d": ("shared", "per frame", "double size"), "nsvf": ("shared",)}
    | {"neus": ("shared", "per frame")},
    "distortion": dict.fromkeys(
        (*JSON_FORMATS, "colmap binary", "colmap text"), FACTORS["distortion"]
    ),
    # instant-ngp's depth images have integers.
    "depth": {"nerfstudio": FACTORS["depth"]}
    | {"instant-ngp": ("none", "millimeters", "along the ray", "marker")}
    | {"polycam": ("none", "millimeters"), "record3d": ("none", "meters")},
    "holes": dict.fromkeys(JSON_FORMATS, FACTORS["holes"])
    | dict.fromkeys(("blender", "colmap binary", "colmap text"), ("none", "a photo", "a camera")),
    "masks": dict.fromkeys(("blender", "colmap binary", "colmap text"), ("none", "beside"))
    | {"instant-ngp": ("none", "beside"), "nerfstudio": FACTORS["masks"]},
}
"""Values of the factors that a format can express, if not all. Formats that are not listed can only
express the usual value."""


class View(NamedTuple):
    """Image uint8 (h, w, 3), depth along the axis (h, w), mask (h, w), and camera in the units of
    the files, of an image file."""

    image: np.ndarray
    depth: np.ndarray
    mask: np.ndarray
    pose: np.ndarray
    lens: Lens
    name: str  # Path in the scene folder, with extension.


Case = Mapping[str, str]


def cases() -> list[Case]:
    """Return cases that contain all possible pairs of the values of the factors of each format."""
    found = []
    for form in FACTORS["format"]:
        values = {
            factor: SUPPORTED.get(factor, {form: values}).get(form, values[:1])
            for factor, values in FACTORS.items()
        } | {"format": (form,)}
        several = {factor: some for factor, some in values.items() if len(some) > 1}
        for row in AllPairs([*several.values()]):
            case = {factor: some[0] for factor, some in values.items()}
            found.append(possible(case | dict(zip(several, row, strict=True))))
    return found


def fewest(found: Sequence[Case]) -> list[Case]:
    """Return cases that contain all pairs of values of `found`, in the order of what they add."""
    pairs = [{*combinations(case.items(), 2)} for case in found]
    chosen: list[Case] = []
    known: set[Any] = set()
    while True:
        best = max(range(len(found)), key=lambda index: len(pairs[index] - known))
        if not pairs[best] - known:
            return chosen
        chosen.append(found[best])
        known |= pairs[best]


def possible(case: Case) -> Case:
    """Return a case with the usual value of a factor that contradicts another one."""
    changed = dict(case)
    if case["image"] in ("16 bits", "palette", "webp"):
        changed["orientation"] = "upright"
    if case["depth"] == "none" and case["holes"] == "a depth image":
        changed["holes"] = "none"
    if case["depth"] == "along the ray":
        changed["distortion"] = "none"
    if case["depth"] != "none":
        changed["units"] = "1"
    if case["depth"] not in ("none", "millimeters"):
        changed["views"] = "12"  # Views that hardly overlap do not reveal the reading of depths.
    return changed


def views_of(case: Case) -> list[View]:
    """Return the views of a case with their true cameras."""
    count, per_frame = int(case["views"]), case["intrinsics"] == "per frame"
    centered = case["format"] in ("llff", "blender") or case["intrinsics"] == "field of view"
    middle = (WIDTH / 2, HEIGHT / 2) if centered else (WIDTH / 2 - 1.5, HEIGHT / 2 + 1.0)
    lens = Lens(WIDTH, HEIGHT, 56.0, 56.0, *middle)
    if case["distortion"] == "k1":
        lens = Lens(WIDTH, HEIGHT, 56.0, 56.0, *middle, k1=0.08)
    world, cameras = _subject(case["subject"], count, lens)
    scale, offset = (
        float(case["units"]),
        (30.0, -20.0, 5.0) if case["origin"] == "far" else (0, 0, 0),
    )
    turn = np.eye(3) if case["up"] == "z" else np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])
    found = []
    for index, camera in enumerate(cameras):
        factor = 1 + 0.04 * np.sin(2.0 * index) if per_frame else 1.0
        own = Lens(**{**vars(lens), "fl_x": lens.fl_x * factor, "fl_y": lens.fl_y * factor})
        image, depth = world.render(Camera(own, camera.pose), samples=1)
        pose = camera.pose.astype(float)
        pose = np.column_stack(
            [turn @ pose[:, :3], scale * (turn @ pose[:, 3]) + scale * np.array(offset)]
        )
        mask = np.ones(depth.shape, bool)
        mask[: HEIGHT // 4, : WIDTH // 3] = index % 2 == 0
        name = f"{FOLDERS[case['folder']]}/{_name(case, index)}{EXTENSIONS[case['image']]}"
        found.append(View(image, scale * depth, mask, pose, own, name))
    return found


FOLDERS = {
    "usual": "images",
    "nested": "images/front/left",
    "with blanks": "my photos",
    "of a mask": "unmasked",
}
EXTENSIONS = {
    **{"png": ".png", "jpg": ".jpg", "webp": ".webp", "png named jpg": ".jpg", "16 bits": ".png"},
    **{"palette": ".png", "opaque alpha": ".png"},
}


def _name(case: Case, index: int) -> str:
    return {
        "padded": f"{'1' if case['format'] == 'nsvf' and index % 8 == 0 else '0'}_{index:04d}",
        "numbers": f"{index}",
        "blanks": f"WhatsApp Image 2026-05-01 at 10.{index:02}.00 ({index % 3})",
        "unicode": f"Küche_{index:03}",
        "upper case": f"IMG_{index:04}",
        "quotes and #": f'it\'s #{index:02} "x"',
        "hash": f"{hash_of(index):08x}",
    }[case["names"]]


def hash_of(index: int) -> int:
    """Return a number whose order does not follow the index."""
    return (index + 1) * 2654435761 % 2**32


def _subject(subject: str, count: int, lens: Lens) -> tuple[World, list[Camera]]:
    if subject == "object":
        return World(table(0.5, 3.0), 0.03), paths.ring(count, 2.0, 1.1, lens)
    if subject == "room":
        return World(room(4, 5, 2.6), 0.04), paths.turn(count, 0.7, 1.4, lens)
    if subject == "plane":
        columns = -(-count // 2)
        return World(ground(9, 0.4), 0.05), paths.grid(2, columns, 1.0, 4, lens)[:count]
    wall = [*table(0.5, 3), rectangle((0, 3, 1), (5, 0, 0), (0, 0, 2.5), 9)]
    return World(wall, 0.04), paths.walk(count, 1.5, 3, 0.9, lens, turned=20)
