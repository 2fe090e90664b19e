"""Snapshots of instant-ngp are rendered as by an independent program; broken ones are refused."""

import gzip
import re
import tracemalloc
import zlib
from contextlib import contextmanager

import msgpack
import numpy as np
import pytest

from nerfmac import InputError, Rays, Samples
from nerfmac.app.scenes.images import decode
from nerfmac.app.snapshots import load_snapshot, read_container, reading
from nerfmac.rendering.metrics import psnr
from tests.app.snapshots import instant_ngp as ngp

pytestmark = pytest.mark.usefixtures("on_the_cpu")
mx = pytest.importorskip("mlx.core")


def loaded(tmp_path, values, name="scene.ingp"):
    ngp.write(tmp_path / name, values)
    return load_snapshot(tmp_path / name)


def seen(run, position, direction):
    """Density (n,) and color (n, 3) of the run's field."""
    count = len(position)
    rays = mx.arange(count + 1, dtype=mx.int32)
    samples = Samples(
        mx.array(position, mx.float32), mx.ones(count), mx.ones(count), rays[:-1], rays, rays[1:]
    )
    field, parameters = run.model.field, run.state.average
    rays = Rays(mx.zeros(direction.shape), mx.array(direction, mx.float32))
    density, color, _ = field(parameters, samples, rays)
    return np.array(density), np.array(color)


VARIANTS = {
    "hash": {},
    "dense": {
        "encoding": {
            "otype": "DenseGrid",
            "n_levels": 4,
            "n_features_per_level": 8,
            "base_resolution": 6,
            "per_level_scale": 1.7,
        }
    },
    "cutlass": {"rgb_network": {**ngp.mlp(64, 3), "otype": "CutlassMLP"}},
    "harmonics": {"dir_encoding": {"otype": "SphericalHarmonics", "degree": 4}},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_field_is_the_snapshots(tmp_path, variant):
    values = ngp.snapshot(**VARIANTS[variant])
    random = np.random.default_rng(3)
    position = random.uniform(-0.5, 1.5, (500, 3))
    direction = random.normal(size=(500, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    density, color = ngp.field(values, position, direction)
    assert np.log(density).std() > 0.5
    assert color.std() > 0.05
    got_density, got_color = seen(loaded(tmp_path, values), position, direction)
    assert np.log(got_density) == pytest.approx(np.log(density), abs=1e-3)
    assert got_color == pytest.approx(color, abs=1e-4)


@pytest.mark.parametrize("name", ["scene.ingp", "scene.msgpack"])
def test_its_cameras_see_what_it_holds(tmp_path, name):
    values = ngp.snapshot()
    run = loaded(tmp_path, values, name)
    for index, camera in enumerate(run.scene.cameras("train")):
        color, opacity = ngp.image(values, index)
        assert 0.05 < (opacity > 0.1).mean() < 0.9
        got = run.render(camera)
        # A step at a cell's face is in it or not, so single pixels at edges differ more.
        assert np.abs(got.opacity - opacity).mean() < 0.004
        assert np.abs(got.color - color).mean() < 0.004


def test_the_scene_is_known_in_its_files_coordinates(tmp_path):
    run = loaded(tmp_path, ngp.snapshot())
    assert run.scene.extent == 2.0
    assert run.scene.up == (0.0, 0.6, 0.8)
    assert run.state.step == 350
    place = np.array([0.3, -0.2, 0.9])
    x, y, z = place * ngp.SCALE + ngp.OFFSET
    assert run.scene.placement.to_scene(place) == pytest.approx([y, z, x])


def test_a_snapshot_that_instant_ngp_trained_shows_its_scene(real_scenes):
    path, scene = real_scenes / "ngp_small.ingp", real_scenes / "lego_400"
    if not (path.is_file() and scene.is_dir()):
        pytest.skip(f"no ngp_small.ingp and lego_400 in {real_scenes}")
    run = load_snapshot(path, scene)
    frame = run.source.splits["test"][0]
    pixels = decode(frame.image, 4, frame.name).astype(np.float32) / 255.0
    alpha = pixels[..., 3:]
    photo = pixels[..., :3] * alpha + 1.0 - alpha
    rendered = run.render(frame.camera).color
    assert psnr(mx.array(rendered), mx.array(photo)) > 32.0  # the mean of 20 views is 31.2


def test_what_instant_ngp_cuts_off_is_not_shown(tmp_path):
    values = ngp.snapshot()
    values["snapshot"]["render_aabb"] = {"min": [-0.5, -0.5, -0.5], "max": [0.4, 1.5, 1.5]}
    run = loaded(tmp_path, values)
    whole = loaded(tmp_path, ngp.snapshot())
    bits = [
        np.unpackbits(np.array(each.state.sampling["bits"]).view(np.uint8)).sum()
        for each in (run, whole)
    ]
    assert 0 < bits[0] < bits[1]
    values = ngp.snapshot()
    values["snapshot"]["density_grid_binary"] = b""  # an untrained grid
    assert (np.array(loaded(tmp_path, values).state.sampling["bits"]) == 2**32 - 1).all()


def changed(path, value):
    values = ngp.snapshot()
    *above, last = path.split(".")
    part = values
    for key in above:
        part = part[key]
    part[last] = value
    return values


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("encoding.otype", "TiledGrid", "otype is .TiledGrid.; expected HashGrid or DenseGrid"),
        ("encoding.interpolation", "Smoothstep", "expected Linear"),
        ("encoding.log2_hashmap_size", 60, "log2_hashmap_size is 60; expected up to 30"),
        ("network.activation", "Sine", "activation is .Sine.; expected ReLU"),
        ("network.n_neurons", 48, "n_neurons is 48; expected 16, 32, 64 or 128"),
        ("rgb_network.n_hidden_layers", 0, "n_hidden_layers is 0"),
        ("dir_encoding.otype", "Frequency", "expected SphericalHarmonics"),
        ("snapshot.version", 0, "version 0; expected 1 or later"),
        ("snapshot.mode", "sdf", "expected nerf"),
        ("snapshot.params_binary", b"12345", "is truncated"),
        ("snapshot.params_binary", b"1234", "params_binary has 2 numbers; the networks"),
        ("snapshot.density_grid_binary", b"1234", "density_grid_binary has 4 bytes; expected"),
        ("snapshot.nerf.dataset.is_hdr", True, "high dynamic range"),
        ("snapshot.nerf.dataset.n_extra_learnable_dims", 16, "latent codes"),
    ],
)
def test_what_nerfmac_lacks_is_refused_by_its_name(tmp_path, path, value, message):
    with pytest.raises(InputError, match=message):
        loaded(tmp_path, changed(path, value))


@contextmanager
def needing_less_than(most):
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("compress", [zlib.compress, gzip.compress])
def test_a_file_that_inflates_without_measure_is_refused(tmp_path, monkeypatch, compress):
    monkeypatch.setattr(reading, "LEAST_LIMIT", 2**20)
    data = compress(msgpack.packb({"snapshot": bytes(2**26)}))
    path = tmp_path / "bomb.ingp"
    path.write_bytes(data)
    told = f"^{re.escape(str(path))} has {len(data)} bytes"
    with needing_less_than(2**24), pytest.raises(InputError, match=told):
        read_container(path)


@pytest.mark.parametrize("compress", [zlib.compress, gzip.compress])
def test_either_compression_is_read_and_a_cut_one_refused(tmp_path, compress):
    values = {"snapshot": {"params_binary": bytes(range(256)) * 64}}
    data = compress(msgpack.packb(values))
    path = tmp_path / "scene.ingp"
    path.write_bytes(data)
    assert read_container(path).values == values
    path.write_bytes(data[:-20])
    with pytest.raises(InputError, match=r"scene\.ingp is truncated"):
        read_container(path)
