"""Scenes as users have them: rendered views with known cameras, written with combinations of names,
image formats, conventions, and gaps."""

import struct
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from allpairspy import AllPairs
from PIL import Image, ImageCms

from nerfmac.app.paths.curve import quaternions
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from tests.app.scenes.colmap_files import MODELS
from tests.app.scenes.depth_scenes import save, write_json
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
    "views": ("4", "9", "17"),
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


def cases(strength: int = 2) -> list[Case]:
    """Return cases that contain all possible combinations of the values of each `strength` factors
    of each format."""
    found = []
    for form in FACTORS["format"]:
        values = {
            factor: SUPPORTED.get(factor, {form: values}).get(form, values[:1])
            for factor, values in FACTORS.items()
        } | {"format": (form,)}
        several = {factor: some for factor, some in values.items() if len(some) > 1}
        for row in AllPairs([*several.values()], n=strength):
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
        changed["views"] = "17"  # Views that hardly overlap do not reveal the reading of depths.
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
        image, depth = world.render(Camera(own, camera.pose))
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


def write_scene(folder: Path, case: Case, views: Sequence[View]) -> None:
    """Write the files of a case."""
    order = sorted(views, key=lambda view: view.name)
    for index, view in enumerate(order):
        _write_image(folder / view.name, case, view.image)
        stem = Path(view.name).stem
        if case["masks"] != "none":
            own = folder / ("masks" if case["masks"] == "beside" else "cut")
            inside = Path(view.name).parent.relative_to(Path(view.name).parts[0])
            save(own / inside / f"{stem}.png", view.mask.astype(np.uint8) * 255)
        if case["depth"] != "none" and not (case["holes"] == "a depth image" and index == 1):
            _write_depth(folder, case, view, stem)
    FORMATS[case["format"]](folder, case, order[1:] if case["holes"] == "a camera" else order)
    if case["holes"] == "a photo":
        (folder / order[0].name).unlink()


def _write_image(path: Path, case: Case, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    exif, options = Image.Exif(), {}
    if case["orientation"] == "turned":
        pixels, exif[0x0112] = np.rot90(pixels), 6
        options["exif"] = exif
    if case["profile"] == "sRGB":
        options["icc_profile"] = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    kind, image = case["image"], Image.fromarray(np.ascontiguousarray(pixels))
    if kind == "16 bits":
        image = Image.fromarray(pixels[..., 1].astype(np.uint16) * 257)
    elif kind == "palette":
        image = image.quantize(256)
    elif kind == "opaque alpha":
        image.putalpha(255)
    form = {"jpg": "JPEG", "webp": "WEBP"}.get(kind, "PNG")
    image.save(path, form, quality=98, **options)


def _write_depth(folder: Path, case: Case, view: View, stem: str) -> None:
    lens, depth = view.lens, view.depth.copy()
    place = {"polycam": "keyframes/depth", "record3d": "depth"}.get(case["format"], "depth")
    kind = case["depth"]
    depth[~np.isfinite(depth)] = 0.0
    if kind == "along the ray":
        rows, columns = np.mgrid[: lens.height, : lens.width] + 0.5
        x, y = (columns - lens.cx) / lens.fl_x, (rows - lens.cy) / lens.fl_y
        depth = depth * np.sqrt(1 + x**2 + y**2)
    if kind == "meters":
        save(folder / place / f"{stem}.exr", depth)
        return
    stored = np.rint(depth * 1000).astype(np.uint16)
    if kind == "marker":
        stored[depth == 0] = 65535
        stored[: HEIGHT // 4] = 65535
    save(folder / place / f"{stem}.png", stored)


def _lens_values(
    case: Case, lens: Lens, names: Sequence[str] = ("fl_x", "fl_y", "cx", "cy", "w", "h")
) -> dict[str, Any]:
    if case["intrinsics"] == "double size":
        lens = lens.scaled(2 * lens.width, 2 * lens.height)
    values = (lens.fl_x, lens.fl_y, lens.cx, lens.cy, lens.width, lens.height)
    bent = {"k1": lens.k1} if lens.k1 else {}
    if case["intrinsics"] == "field of view":
        return {"camera_angle_x": 2 * np.arctan(lens.width / 2 / lens.fl_x), **bent}
    if case["intrinsics"] == "matrix":
        rows = [[lens.fl_x, 0, lens.cx], [0, lens.fl_y, lens.cy], [0, 0, 1]]
        return {"w": lens.width, "h": lens.height, "intrinsic_matrix": rows, **bent}
    return dict(zip(names, values, strict=True)) | bent


def _json(folder: Path, case: Case, views: Sequence[View]) -> None:
    shared = _lens_values(case, views[0].lens)
    frames = []
    for view in views:
        stem = Path(view.name).stem
        frame: dict[str, Any] = {
            "file_path": view.name,
            "transform_matrix": [*view.pose.tolist(), [0, 0, 0, 1]],
        }
        if case["intrinsics"] == "per frame":
            frame |= _lens_values(case, view.lens)
        if case["depth"] != "none":
            key = "depth_file_path" if case["format"] == "nerfstudio" else "depth_path"
            frame[key] = f"depth/{stem}{'.exr' if case['depth'] == 'meters' else '.png'}"
        if case["masks"] == "listed":
            inside = Path(view.name).parent.relative_to(Path(view.name).parts[0])
            frame["mask_path"] = (Path("cut") / inside / f"{stem}.png").as_posix()
        frames.append(frame)
    values = {"camera_model": "OPENCV", "frames": frames}
    if case["intrinsics"] != "per frame":
        values |= shared
    if case["depth"] not in ("none", "meters") and case["format"] == "instant-ngp":
        values["integer_depth_scale"] = 0.001
    write_json(folder / "transforms.json", values)


def _blender(folder: Path, case: Case, views: Sequence[View]) -> None:
    for split, part in (("train", views[1:]), ("test", views[:1])):
        frames = [
            {"file_path": f"./{view.name}", "transform_matrix": [*view.pose.tolist(), [0, 0, 0, 1]]}
            for view in part
        ]
        values = {**_lens_values(case, views[0].lens), "frames": frames}
        write_json(folder / f"transforms_{split}.json", values)


def _colmap_values(view: View) -> tuple[list[float], list[float]]:
    rotation = (view.pose[:, :3] * OPENCV[:3]).T
    return [float(v) for v in quaternions(rotation[None])[0]], (
        -rotation @ view.pose[:, 3]
    ).tolist()


def _colmap(folder: Path, case: Case, views: Sequence[View]) -> None:
    place = folder / "sparse/0"
    place.mkdir(parents=True)
    cameras, images, texts = b"", b"", (["# Cameras"], ["# Images"])
    for number, view in enumerate(views, 1):
        lens = view.lens
        if case["intrinsics"] == "double size":
            lens = lens.scaled(2 * lens.width, 2 * lens.height)
        parameters = [lens.fl_x, lens.fl_y, lens.cx, lens.cy, lens.k1, 0.0, 0.0, 0.0]
        rotation, translation = _colmap_values(view)
        name = Path(view.name).relative_to("images").as_posix()
        cameras += struct.pack(
            "<IiQQ8d", number, MODELS.index("OPENCV"), lens.width, lens.height, *parameters
        )
        images += struct.pack("<I7dI", number, *rotation, *translation, number)
        images += name.encode() + b"\0" + struct.pack("<Q", 0)
        texts[0].append(
            " ".join(map(str, [number, "OPENCV", lens.width, lens.height, *parameters]))
        )
        texts[1].extend([" ".join(map(str, [number, *rotation, *translation, number, name])), ""])
    if case["format"] == "colmap binary":
        count = struct.pack("<Q", len(views))
        for file, content in (
            ("cameras", count + cameras),
            ("images", count + images),
            ("points3D", struct.pack("<Q", 0)),
        ):
            (place / f"{file}.bin").write_bytes(content)
    else:
        for file, lines in (
            ("cameras", texts[0]),
            ("images", texts[1]),
            ("points3D", ["# Points"]),
        ):
            (place / f"{file}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _llff(folder: Path, case: Case, views: Sequence[View]) -> None:
    rows = []
    for view in views:
        right, up, back, eye = view.pose.T
        lens = (
            view.lens.scaled(2 * WIDTH, 2 * HEIGHT)
            if case["intrinsics"] == "double size"
            else view.lens
        )
        table = np.column_stack([-up, right, back, eye, (lens.height, lens.width, lens.fl_x)])
        seen = view.depth[np.isfinite(view.depth)]
        rows.append([*table.ravel(), seen.min(), seen.max()])
    np.save(folder / "poses_bounds.npy", np.array(rows))


def _polycam(folder: Path, case: Case, views: Sequence[View]) -> None:
    (folder / "keyframes").mkdir(exist_ok=True)
    (folder / "images").rename(folder / "keyframes/images")
    for view in views:
        values = _lens_values(case, view.lens, ("fx", "fy", "cx", "cy", "width", "height"))
        values |= {f"t_{i}{j}": float(view.pose[i, j]) for i in range(3) for j in range(4)}
        write_json(folder / f"keyframes/cameras/{Path(view.name).stem}.json", values)


def _record3d(folder: Path, case: Case, views: Sequence[View]) -> None:
    (folder / "images").rename(folder / "rgb")
    views = sorted(views, key=lambda view: int(Path(view.name).stem))
    values = _lens_values(case, views[0].lens)
    metadata = {"w": values["w"], "h": values["h"], "poses": []}
    for view in views:
        w, x, y, z = quaternions(view.pose[None, :, :3])[0].tolist()
        metadata["poses"].append([x, y, z, w, *view.pose[:, 3].tolist()])
    if case["intrinsics"] == "per frame":
        lenses = [_lens_values(case, view.lens) for view in views]
        metadata["perFrameIntrinsicCoeffs"] = [
            [v["fl_x"], v["fl_y"], v["cx"], v["cy"]] for v in lenses
        ]
    metadata["K"] = [values["fl_x"], 0, 0, 0, values["fl_y"], 0, values["cx"], values["cy"], 1]
    write_json(folder / "metadata", metadata)


def _nsvf(folder: Path, case: Case, views: Sequence[View]) -> None:
    (folder / "images").rename(folder / "rgb")
    lens = views[0].lens
    (folder / "intrinsics.txt").write_text(
        f"{lens.fl_x} 0 {lens.cx} 0\n0 {lens.fl_y} {lens.cy} 0\n0 0 1 0\n0 0 0 1\n"
    )
    for view in views:
        path = folder / "pose" / f"{Path(view.name).stem}.txt"
        path.parent.mkdir(exist_ok=True)
        np.savetxt(path, np.vstack([view.pose * OPENCV, [0, 0, 0, 1]]))


def _neus(folder: Path, case: Case, views: Sequence[View]) -> None:
    (folder / "images").rename(folder / "image")
    arrays = {}
    for index, view in enumerate(views):
        lens, rotation = view.lens, (view.pose[:, :3] * OPENCV[:3]).T
        k = np.array([[lens.fl_x, 0, lens.cx], [0, lens.fl_y, lens.cy], [0, 0, 1]])
        matrix = k @ np.column_stack([rotation, -rotation @ view.pose[:, 3]])
        arrays[f"world_mat_{index}"] = np.vstack([matrix, [0, 0, 0, 1]])
    np.savez(folder / "cameras_sphere.npz", **arrays)


FORMATS = {
    **{"instant-ngp": _json, "nerfstudio": _json, "blender": _blender},
    **{"colmap binary": _colmap, "colmap text": _colmap, "llff": _llff, "polycam": _polycam},
    **{"record3d": _record3d, "nsvf": _nsvf, "neus": _neus},
}
