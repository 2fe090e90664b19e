"""Writers of the files of generated scenes, in the formats of several programs."""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageCms

from nerfmac.app.paths.curve import quaternions
from nerfmac.geometry.lenses import Lens
from tests.app.scenes.colmap_files import MODELS
from tests.app.scenes.depth_scenes import save, write_json
from tests.variety.scenes import HEIGHT, OPENCV, WIDTH, Case, View


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
