"""A run written as a snapshot is the same field to instant-ngp, computed without our code."""

import zlib
from dataclasses import replace

import mlx.core as mx
import msgpack
import numpy as np
import pytest

from nerfmac.app.run import Run
from nerfmac.app.snapshots import load_snapshot, save_snapshot
from nerfmac.app.snapshots.dataset import turn_of
from nerfmac.backend import choose_device
from nerfmac.common.checks import InputError
from nerfmac.config import override
from nerfmac.fields.vanilla import VanillaField
from nerfmac.geometry.bounds import Bounds
from nerfmac.geometry.placement import Placement
from nerfmac.training.method import Method
from tests.app.snapshots import instant_ngp as ngp
from tests.app.snapshots.test_reading import seen
from tests.scene_factory import CONFIG, nerfmac

pytestmark = pytest.mark.usefixtures("on_the_cpu")
TURNED = Placement(0.4, np.array([0.45, 0.6, 0.5]), 1.0, np.eye(3)[[2, 0, 1]])


def made(scene, **networks):
    """A run with random parameters, of which some cells are occupied."""
    choose_device("cpu")
    config = override(
        CONFIG,
        networks={"density_bias": 0, **networks},
        occupancy={"resolution": 16},
        march={"steps": 1024},  # as a snapshot is read
    )
    run = Run.begin(scene, config)
    random = np.random.default_rng(2)
    for name, spread in (("table", 0.8), ("density", 0.7), ("colour", 0.6)):
        shape = run.state.average[name].shape
        run.state.average[name] = mx.array(random.uniform(-spread, spread, shape), mx.float32)
    words = random.integers(0, 2**32, run.state.sampling["bits"].shape, np.uint32)
    run.state.sampling["bits"] = mx.array(words)
    run.state.sampling["values"] = mx.array(random.random(16**3), mx.float32)
    return run


def saved(run, path):
    save_snapshot(run, path)
    data = path.read_bytes()
    return msgpack.unpackb(zlib.decompress(data) if path.suffix == ".ingp" else data)


@pytest.mark.parametrize(
    "networks",
    [
        {},
        {"density_bias": 2},
        {"density_bias": 3, "density_layers": 3, "width": 16},
        {"colour_layers": 3, "width": 64},
    ],
    ids=str,
)
def test_instant_ngp_computes_the_runs_field(scene, tmp_path, networks):
    run = made(scene, **networks)
    density_bias = run.config.for_scene(100.0, has_alpha=True).networks.density_bias
    assert density_bias == networks.get("density_bias", 0)
    values = saved(run, tmp_path / "scene.ingp")
    random = np.random.default_rng(4)
    position = random.random((400, 3))
    direction = random.normal(size=(400, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    want, colour = seen(run, position, direction)
    got, got_colour = ngp.field(values, position, direction)
    assert np.log(want).std() > 0.1
    assert np.log(got) == pytest.approx(np.log(want), abs=0.02)  # parameters are rounded
    assert got_colour == pytest.approx(colour, abs=0.01)
    count = len(values["snapshot"]["params_binary"]) // 2
    assert values["snapshot"]["n_params"] == count


def test_the_occupied_cells_are_those_of_instant_ngps_order(scene, tmp_path):
    run = made(scene)
    values = saved(run, tmp_path / "scene.msgpack")
    assert values["snapshot"]["density_grid_size"] == 128  # instant-ngp loads no other
    grid = np.frombuffer(values["snapshot"]["density_grid_binary"], np.float16)
    assert grid.shape == (128**3,)
    bits = np.array(run.state.sampling["bits"])
    random = np.random.default_rng(5)
    for x, y, z in [(3, 5, 8), (0, 0, 1), (15, 2, 0), (7, 12, 9)]:
        brick = (z // 2 * 4 + y // 4) * 4 + x // 4
        bit = (z % 2 * 4 + y % 4) * 4 + x % 4
        finer = 8 * np.array([x, y, z]) + random.integers(0, 8, (20, 3))
        assert {bool(grid[ngp.morton(*cell)] > 0) for cell in finer.tolist()} == {
            bool(bits[brick] >> bit & 1)
        }
    assert 0.3 < (grid > 0).mean() < 0.7


def test_a_run_is_read_again_as_it_was(scene, tmp_path):
    run = made(scene, density_bias=1)
    run.scene = replace(run.scene, placement=TURNED)
    saved(run, tmp_path / "scene.ingp")
    again = load_snapshot(tmp_path / "scene.ingp")
    assert again.scene.up == pytest.approx(run.scene.up)
    assert np.array_equal(again.scene.placement.rotation, TURNED.rotation)
    for got, want in zip(again.scene.cameras, run.scene.cameras, strict=True):
        assert np.allclose(got.pose, want.pose, atol=1e-6)
        assert got.lens == want.lens


def test_a_run_of_few_cells_shows_the_same_pictures_when_read_again(scene, tmp_path):
    run = made(scene)
    saved(run, tmp_path / "scene.ingp")
    again = load_snapshot(tmp_path / "scene.ingp")
    for camera in run.scene.cameras[:2]:
        got, want = again.render(camera), run.render(camera)
        assert np.abs(got.opacity - want.opacity).mean() < 0.004
        assert np.abs(got.colour - want.colour).mean() < 0.004
        assert 0.1 < want.opacity.mean() < 0.9


def test_instant_ngp_places_the_turned_files_cameras_as_the_run_does(scene, tmp_path):
    run = made(scene)
    run.scene = replace(run.scene, placement=TURNED)
    snapshot = saved(run, tmp_path / "scene.ingp")["snapshot"]
    dataset = snapshot["nerf"]["dataset"]
    assert not dataset["from_mitsuba"]
    turn = turn_of(TURNED)
    assert not np.allclose(turn, np.eye(3))
    for camera, xform in zip(run.scene.cameras, dataset["xforms"], strict=True):
        pose = np.c_[
            TURNED.turned_to_file(camera.pose[:, :3].T).T, TURNED.to_file(camera.pose[:, 3])
        ]
        placed = ngp.placed(turn @ pose, dataset["scale"], dataset["offset"])
        assert np.allclose(xform["start"], placed, atol=1e-6)
    assert snapshot["camera"]["matrix"] == dataset["xforms"][0]["start"]


def test_only_a_snapshot_in_other_axes_says_how_to_turn_cameras(scene, tmp_path, caplog):
    caplog.set_level("INFO", "nerfmac")
    run = made(scene)
    saved(run, tmp_path / "scene.ingp")
    assert "[[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]" in caplog.text
    caplog.clear()
    ngp.write(tmp_path / "theirs.ingp", ngp.snapshot())
    theirs = load_snapshot(tmp_path / "theirs.ingp")
    values = saved(theirs, tmp_path / "again.ingp")
    assert "set_nerf_camera_matrix" not in caplog.text
    assert np.allclose(values["snapshot"]["nerf"]["dataset"]["offset"], ngp.OFFSET)


def test_a_snapshot_is_evaluated_on_its_scene(balls, scene, tmp_path, capsys):
    run = made(scene)
    saved(run, tmp_path / "scene.ingp")
    again = load_snapshot(tmp_path / "scene.ingp", balls)
    for split in ("train", "test"):
        for got, want in zip(again.source.splits[split], scene.splits[split], strict=True):
            assert np.allclose(got.camera.pose, want.camera.pose, atol=1e-5)
    assert nerfmac("eval", tmp_path / "scene.ingp", "--scene", balls, "--device", "cpu") == 0
    assert nerfmac("eval", tmp_path / "scene.ingp", "--device", "cpu") == 2
    assert "--scene" in capsys.readouterr().err


def test_what_instant_ngp_lacks_is_refused_before_anything_is_written(scene, tmp_path):
    path = tmp_path / "scene.ingp"
    run = made(scene)
    run.scene = replace(run.scene, extent=3.0)
    with pytest.raises(InputError, match="has the side 3; instant-ngp's is 1, 2, 4"):
        save_snapshot(run, path)
    run = made(scene)
    run.state.average["table"] = mx.full(run.state.average["table"].shape, 1e5)
    with pytest.raises(InputError, match="beyond half precision"):
        save_snapshot(run, path)
    field = VanillaField(CONFIG.vanilla, Bounds(1.0))
    with pytest.raises(InputError, match="the run has another field"):
        save_snapshot(Run.begin(scene, CONFIG, method=Method(field=field)), path)
    assert not list(tmp_path.iterdir())
