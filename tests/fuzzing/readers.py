"""The readers of external files, each with a small valid folder to mutate."""

import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx
import numpy as np
from PIL import Image

from nerfmac.app.paths import CameraPath, Keyframe
from nerfmac.app.run import Run, Training
from nerfmac.app.run.folder import read_scene
from nerfmac.app.run.reporting import read_scalars
from nerfmac.app.scenes import load_scene
from nerfmac.app.scenes.images import are_cut_out, decode, inspect
from nerfmac.app.scenes.ply_points import read_ply_points, write_ply_points
from nerfmac.app.scenes.readers.transforms import read_studio_space
from nerfmac.app.snapshots import load_snapshot
from nerfmac.common import InputError, read_json
from nerfmac.config import Config
from nerfmac.config.presets import PRESETS
from nerfmac.ops.loss_scale import LossScale
from nerfmac.training.checkpoint import load_checkpoint, save_checkpoint
from nerfmac.training.state import TrainState
from tests.app.scenes.colmap_files import write_colmap
from tests.app.scenes.scene_files import matrix, pixels, write_blender, write_json, write_transforms
from tests.app.scenes.test_phone_captures import polycam, record3d, write_llff
from tests.app.scenes.test_research_formats import write_neus, write_nsvf
from tests.app.snapshots import instant_ngp
from tests.scene_factory import CONFIG, write_scene

IMAGES = ("PNG", "JPEG", "WEBP", "TIFF", "BMP", "HEIF")


class Reader(NamedTuple):
    """`write` makes a valid folder, `read` reads it; the files that match `changed` are mutated."""

    write: Callable[[Path], object]
    read: Callable[[Path], object]
    changed: tuple[str, ...]

    def files(self, folder: Path) -> list[Path]:
        return sorted({path for pattern in self.changed for path in folder.glob(pattern)})


def attempt(read: Callable[[Path], object], folder: Path) -> str | None:
    """Read the `folder`; return the message of an InputError, None if it was read."""
    try:
        read(folder)
    except InputError as error:
        return str(error)
    return None


def _write_transforms(folder: Path) -> Path:
    """A transforms.json of instant-ngp's kind, with nerfstudio's lists, masks and points."""
    _write_points(folder)
    more = {"ply_file_path": "points.ply", "train_filenames": ["images/000.png"]}
    more |= {"test_filenames": ["images/001.png"], "camera_model": "OPENCV", "k1": 0.01}
    frame = {1: {"mask_path": "images/002.png", "fl_x": 31.0}}
    return write_transforms(folder, 3, frame=frame, offset=[0.5, 0.4, 0.3], scale=0.3, **more)


def _write_fitted(folder: Path) -> None:
    """Write a transforms.json without a placement, next to a COLMAP model of its images."""
    values = json.loads(_write_transforms(folder).read_text())
    for key in ("aabb_scale", "offset", "scale", "w", "h", "train_filenames", "test_filenames"):
        del values[key]
    write_colmap(folder, 3, shown={0: [(1.0, 2.0, 1)], 1: [(5.0, 2.0, 1)], 2: [(5.0, 7.0, 1)]})
    write_json(folder / "transforms.json", values | {"applied_transform": np.eye(4)[:3].tolist()})


def _write_points(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    points = np.random.default_rng(3).normal(size=(9, 3))
    write_ply_points(folder / "points.ply", points, np.full((9, 3), 70, np.uint8))
    lines = ["ply", "format ascii 1.0", "element vertex 3", "property float x", "property float y"]
    lines += ["property float z", "end_header", "1 2 3", "4 5 6.5", "7 8 9", ""]
    (folder / "text.ply").write_text("\n".join(lines))


def _read_points(folder: Path) -> None:
    faults = [attempt(read_ply_points, folder / name) for name in ("points.ply", "text.ply")]
    if any(faults):
        raise InputError("; ".join(map(str, faults)))


def _write_path(folder: Path) -> None:
    folder.mkdir()
    poses = [np.array(matrix(index))[:3] for index in range(3)]
    seconds = (None, 1.5, 2.5)
    keys = [Keyframe(pose, 0.8, time) for pose, time in zip(poses, seconds, strict=True)]
    path = CameraPath(keys, closed=True)
    for kind in ("nerfmac", "nerfstudio", "instant-ngp"):
        path.save(folder / f"{kind}.json", kind, fps=1.0, size=(32, 18))


def _read_path(folder: Path) -> None:
    for file in sorted(folder.glob("*.json")):
        path = CameraPath.load(file)
        path.cameras(4, path.size if path.size and max(path.size) < 2**13 else (32, 18))


def _write_studio_space(folder: Path) -> None:
    write_transforms(folder, 1, applied_transform=np.eye(4)[:3].tolist(), applied_scale=2.0)
    values = {"transform": np.eye(4)[:3].tolist(), "scale": 0.5}
    write_json(folder / "dataparser_transforms.json", values)


def _read_studio_space(folder: Path) -> None:
    space = read_studio_space(folder / "dataparser_transforms.json", folder)
    space.to_file(np.array(matrix(1))[:3])


def _state() -> TrainState:
    def tree(first: float) -> dict[str, mx.array]:
        return {"table": mx.arange(8).reshape(4, 2) + first, "density": mx.ones(3)}

    scaling = LossScale.init(512.0)._asdict()
    trees = tree(0.5), tree(1.5), tree(2.5)
    return TrainState(*trees, {"values": mx.ones(4)}, scaling, mx.array(3.5), step=7, rays=96)


def _write_checkpoint(folder: Path) -> None:
    folder.mkdir()
    notes = {"curve": [[1, 0.5, 12.25]], "build_seconds": 0.5, "rates": [1.0, 2.0]}
    save_checkpoint(folder / "checkpoint.safetensors", _state(), notes)


@cache
def _shapes() -> dict[str, tuple[int, ...]]:
    return {name: values.shape for name, values in _state().arrays().items()}


def _read_checkpoint(folder: Path) -> None:
    load_checkpoint(folder / "checkpoint.safetensors", _shapes())


def _write_config(folder: Path) -> None:
    write_json(folder / "config.json", PRESETS["small"].to_json())
    some = {"march": {"march_factor": 2, "max_samples": 4096}, "train": {"rays": 64}}
    write_json(folder / "some.json", {"preset": "base", "seed": 3, **some})


def _read_config(folder: Path) -> None:
    for file in sorted(folder.glob("*.json")):
        Config.from_json(read_json(file))


def _write_run(folder: Path) -> None:
    scene = load_scene(write_scene(folder / "scene", test=1, train=3))
    Training.begin(Run.begin(scene, CONFIG, progress=False), folder / "run")
    line = {"step": 3, "seconds": 0.5, "rays": 9, "loss": 0.1, "psnr": 12.0}
    (folder / "run/scalars.jsonl").write_text(f"{json.dumps(line)}\n" * 3)


def _read_record(folder: Path) -> None:
    read_scene(folder / "run")
    read_scalars(folder / "run")


def _read_run(folder: Path) -> None:
    run = Run.load(folder / "run")
    assert len(run.curve) + run.skipped_steps >= 0, repr(run)


def _write_snapshot(folder: Path, ending: str) -> None:
    folder.mkdir()
    encoding = {"otype": "HashGrid", "n_levels": 4, "n_features_per_level": 4}
    encoding |= {"log2_hashmap_size": 8, "base_resolution": 4, "per_level_scale": 1.4}
    networks = {"network": instant_ngp.mlp(16, 1), "rgb_network": instant_ngp.mlp(16, 1)}
    instant_ngp.write(folder / f"a{ending}", instant_ngp.snapshot(encoding=encoding, **networks))


def _read_snapshot(folder: Path, ending: str) -> None:
    load_snapshot(folder / f"a{ending}")


def _write_images(folder: Path, form: str) -> None:
    folder.mkdir()
    ending = {"JPEG": "jpg", "HEIF": "heic", "TIFF": "tif"}.get(form, form.lower())
    exif = Image.Exif()
    exif[0x0112] = 6
    colors = Image.fromarray(pixels(1, 3 if form in ("JPEG", "BMP") else 4))
    if form == "HEIF":
        import pillow_heif

        pillow_heif.register_heif_opener()
    colors.save(folder / f"a.{ending}", form, **({} if form == "BMP" else {"exif": exif}))
    if form in ("PNG", "TIFF", "BMP"):
        colors.convert("RGB").quantize(9).save(folder / f"b.{ending}", form)
        colors.convert("L").save(folder / f"c.{ending}", form)
    if form in ("PNG", "TIFF"):
        deep = np.arange(35, dtype=np.uint16).reshape(5, 7) * 1800
        Image.fromarray(deep).save(folder / f"d.{ending}", form)
    if form == "TIFF":
        for name in ("tiff_lzw", "tiff_adobe_deflate", "packbits"):
            colors.save(folder / f"{name}.tif", form, compression=name)


def _read_images(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        header = inspect(path)
        are_cut_out([path])
        decode(path, 4, path.name, 2 if min(header.size) > 1 else 1)


JSON = ("*.json",)
READERS: dict[str, Reader] = {
    "transforms": Reader(_write_transforms, load_scene, JSON),
    "nerfstudio": Reader(_write_fitted, load_scene, ("*.json", "points.ply", "sparse/0/*")),
    "blender": Reader(partial(write_blender, train=3, test=1), load_scene, JSON),
    "colmap-binary": Reader(partial(write_colmap, count=3), load_scene, ("sparse/0/*",)),
    "colmap-text": Reader(
        partial(write_colmap, count=3, binary=False), load_scene, ("sparse/0/*",)
    ),
    "llff": Reader(partial(write_llff, count=3), load_scene, ("*.npy",)),
    "neus": Reader(partial(write_neus, count=3), load_scene, ("*.npz",)),
    "nsvf": Reader(write_nsvf, load_scene, ("*.txt", "pose/*.txt")),
    "record3d": Reader(partial(record3d, count=4), load_scene, ("metadata",)),
    "polycam": Reader(polycam, load_scene, ("keyframes/cameras/*7*0.json",)),
    "ply": Reader(_write_points, _read_points, ("*.ply",)),
    "path": Reader(_write_path, _read_path, JSON),
    "studio-space": Reader(_write_studio_space, _read_studio_space, JSON),
    "checkpoint": Reader(_write_checkpoint, _read_checkpoint, ("*",)),
    "config": Reader(_write_config, _read_config, JSON),
    "record": Reader(_write_run, _read_record, ("run/scene.json", "run/scalars.jsonl")),
    "run": Reader(_write_run, _read_run, ("run/config.json", "run/*.safetensors")),
    "snapshot": Reader(
        partial(_write_snapshot, ending=".msgpack"),
        partial(_read_snapshot, ending=".msgpack"),
        ("*.msgpack",),
    ),
    "ingp": Reader(
        partial(_write_snapshot, ending=".ingp"),
        partial(_read_snapshot, ending=".ingp"),
        ("*.ingp",),
    ),
    **{
        f"image-{form.lower()}": Reader(partial(_write_images, form=form), _read_images, ("*",))
        for form in IMAGES
    },
}
