"""LPIPS with random weights agrees with its formula, computed with loops over NumPy arrays."""

import zipfile

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import InputError, Run, load_scene
from nerfmac.app.run.perceptual import Lpips
from tests.scene_factory import CONFIG, nerfmac, write_scene

pytestmark = pytest.mark.usefixtures("on_the_cpu")

SHAPES = {
    "net.slice1.0": (64, 3, 11, 11),
    "net.slice2.3": (192, 64, 5, 5),
    "net.slice3.6": (384, 192, 3, 3),
    "net.slice4.8": (256, 384, 3, 3),
    "net.slice5.10": (256, 256, 3, 3),
}
STEPS = [(4, 2, False), (1, 2, True), (1, 1, True), (1, 1, False), (1, 1, False)]


def weights():
    random = np.random.default_rng(6)
    found = {"scaling_layer.shift": np.zeros((1, 3, 1, 1), np.float32)}
    for index, (name, shape) in enumerate(SHAPES.items()):
        spread = 1.5 / np.sqrt(np.prod(shape[1:]))
        found[f"{name}.weight"] = random.normal(0, spread, shape).astype(np.float32)
        found[f"{name}.bias"] = random.normal(0, 0.2, shape[0]).astype(np.float32)
        linear = random.random((1, shape[0], 1, 1)).astype(np.float32)
        found[f"lin{index}.model.1.weight"] = linear
    return found


def windows(values, side, stride):
    view = np.lib.stride_tricks.sliding_window_view(values, (side, side), axis=(1, 2))
    return view[:, ::stride, ::stride]  # channels, rows, columns, side, side


def by_hand(given, image, target):
    features = []
    for each in (image, target):
        values = (2.0 * each.astype(np.float64) - 1.0).transpose(2, 0, 1)
        values -= np.array([-0.030, -0.088, -0.188])[:, None, None]
        values /= np.array([0.458, 0.448, 0.450])[:, None, None]
        seen = []
        for name, (stride, padding, pooled) in zip(SHAPES, STEPS, strict=True):
            if pooled:
                values = windows(values, 3, 2).max(axis=(3, 4))
            values = np.pad(values, ((0, 0), (padding, padding), (padding, padding)))
            kernel = given[f"{name}.weight"]
            patches = windows(values, kernel.shape[2], stride)
            values = np.einsum("chwij,ocij->ohw", patches, kernel, optimize=True)
            values = np.maximum(values + given[f"{name}.bias"][:, None, None], 0.0)
            seen.append(values / np.sqrt((values**2).sum(axis=0)))
        features.append(seen)
    total = 0.0
    for index, (x, y) in enumerate(zip(*features, strict=True)):
        linear = given[f"lin{index}.model.1.weight"].reshape(-1, 1, 1)
        total += (linear * (x - y) ** 2).sum(axis=0).mean()
    return total


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights")
    given = weights()
    np.savez(folder / "alex.npz", **given)
    arrays = {name: mx.array(values) for name, values in given.items()}
    mx.save_safetensors(str(folder / "alex.safetensors"), arrays)
    return folder


@pytest.mark.parametrize("name", ["alex.npz", "alex.safetensors"])
def test_it_is_what_the_formula_says(files, name):
    random = np.random.default_rng(1)
    image = random.random((37, 52, 3)).astype(np.float32)
    target = np.clip(image + random.normal(0, 0.2, image.shape), 0, 1).astype(np.float32)
    measure = Lpips(files / name)
    got = float(measure(mx.array(image), mx.array(target)))
    assert got == pytest.approx(by_hand(weights(), image, target), rel=1e-4)
    assert got > 0.01
    assert float(measure(mx.array(image), mx.array(image))) == 0.0


def test_eval_prints_and_writes_it(files, run_of_size, tmp_path, capsys):
    out = tmp_path / "figures.json"
    flags = ("--lpips", files / "alex.npz", "--json", out, "--device", "cpu")
    assert nerfmac("eval", run_of_size, *flags) == 0
    assert capsys.readouterr().out.count("LPIPS 0.") == 2
    assert '"lpips_test": 0.' in out.read_text()


@pytest.fixture
def run_of_size(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.scene_factory.WIDTH", 40)
    monkeypatch.setattr("tests.scene_factory.HEIGHT", 32)
    scene = load_scene(write_scene(tmp_path / "balls", test=1, train=2))
    Run.begin(scene, CONFIG).save(tmp_path / "run")
    return tmp_path / "run"


def test_other_files_and_small_images_are_refused(files, tmp_path):
    with pytest.raises(InputError, match="does not contain weights of LPIPS; expected lpips"):
        Lpips(tmp_path / "alex.pth")
    with pytest.raises(InputError, match="cannot be read"):
        Lpips(tmp_path / "alex.npz")
    with zipfile.ZipFile(tmp_path / "claims.npz", "w") as file, file.open("a.npy", "w") as member:
        claims = {"descr": "<f4", "fortran_order": False, "shape": (2**70,)}
        np.lib.format.write_array_header_1_0(member, claims)
    with pytest.raises(InputError, match=r"claims\.npz cannot be read"):
        Lpips(tmp_path / "claims.npz")
    given = weights()
    np.savez(tmp_path / "less.npz", **{k: v for k, v in given.items() if "slice4" not in k})
    with pytest.raises(InputError, match=r"has no .*8\.weight"):
        Lpips(tmp_path / "less.npz")
    np.savez(tmp_path / "vgg.npz", **{**given, "net.slice1.0.weight": np.zeros((64, 3, 3, 3))})
    with pytest.raises(InputError, match="AlexNet's are"):
        Lpips(tmp_path / "vgg.npz")
    small = mx.zeros((30, 50, 3))
    with pytest.raises(InputError, match="at least 31 pixels"):
        Lpips(files / "alex.npz")(small, small)


def test_an_archive_that_inflates_without_measure_is_refused(tmp_path):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name in ("net.slice1.0.weight.npy", "other.npy"):
            file.writestr(name, bytes(2**27 + 1))
    assert path.stat().st_size < 2**20
    with pytest.raises(
        InputError, match=rf"bomb\.npz has a decompressed size of {2**28 + 2} bytes; expected"
    ):
        Lpips(path)
