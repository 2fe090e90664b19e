"""Test cameras follow refined training cameras, and find their own places in a field."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.common.checks import InputError
from nerfmac.config import REFINED, RefineConfig, override
from nerfmac.geometry.cameras import Camera, Cameras
from nerfmac.geometry.lenses import Lens
from nerfmac.run import Run
from nerfmac.training import alignment
from nerfmac.training.alignment import moved_along, moved_views, refine_alone
from nerfmac.training.corrections import LENSES, POSES, corrected_poses
from nerfmac.training.goal import Goal
from nerfmac.training.refined import refined_in_words
from nerfmac.training.step import Kind
from tests.scene_factory import CONFIG

pytestmark = pytest.mark.usefixtures("on_the_cpu")

LENS = Lens.from_fov(0.7, 20, 16)


def poses(count: int) -> np.ndarray:
    random = np.random.default_rng(count)
    eyes = random.normal(size=(count, 3)) + (2.0, 0.5, 0.1)
    return np.stack(
        [Camera.look_at(eye, (0.5, 0.4, 0.6), (0, 0.1, 1), LENS).pose for eye in eyes]
    ).astype(float)


def similar(given: np.ndarray) -> np.ndarray:
    """The poses turned by about 40 degrees, made 1.3 times as large, and shifted."""
    zero = np.zeros((1, 3, 4), np.float32)
    zero[0, :, :3] = np.eye(3)
    move = mx.array([[0.5, -0.3, 0.4, 0, 0, 0]])
    turn = np.array(corrected_poses(mx.array(zero), move))[0, :, :3].astype(float)
    place = 1.3 * given[:, :, 3] @ turn.T + (0.2, -0.7, 0.1)
    return np.concatenate([turn @ given[:, :, :3], place[:, :, None]], axis=2)


@pytest.mark.parametrize("count", [2, 7])
def test_poses_move_by_the_similarity_that_moved_others(count):
    others = poses(5)
    got = moved_along(others, poses(count), similar(poses(count)))
    np.testing.assert_allclose(got, similar(others), atol=1e-6)


def test_one_camera_alone_says_how_to_turn_and_to_shift():
    given = poses(1)
    got = moved_along(given, given, similar(given))
    np.testing.assert_allclose(got, similar(given), atol=1e-6)


def test_what_all_cameras_moved_by_on_their_own_moves_no_other():
    given, random = poses(400), np.random.default_rng(1)
    moves = mx.array(random.normal(scale=0.02, size=(400, 6)).astype(np.float32))
    refined = np.array(corrected_poses(mx.array(given.astype(np.float32)), moves)).astype(float)
    others = poses(5)
    assert np.abs(moved_along(others, given, refined) - others).max() < 0.01


@pytest.fixture(scope="module")
def run(scene):
    made = Run.begin(
        scene,
        override(CONFIG, refine={**dict.fromkeys(REFINED, True), "every": 4, "coarse_steps": 30}),
    )
    made.train(steps=60, progress=False)
    return made


def test_cameras_and_exposures_come_back_from_a_runs_folder(run, tmp_path):
    run.save(tmp_path)
    loaded = Run.load(tmp_path)
    for refined, given in zip(run.cameras, run.scene.cameras, strict=True):
        assert np.abs(refined.pose - given.pose).max() > 1e-5, "every camera is refined"
        assert abs(refined.lens.fl_x / given.lens.fl_x - 1.0) > 1e-5
        assert refined.lens.k1 != given.lens.k1
    for got, want in zip(loaded.cameras, run.cameras, strict=True):
        np.testing.assert_array_equal(got.pose, want.pose)
        assert got.lens == want.lens
    assert loaded.state.average.keys() == run.state.average.keys()
    assert loaded.render(run.cameras[0]).colour.shape == (16, 20, 3)


def test_a_copy_and_a_run_that_goes_on_keep_their_corrections(run):
    copied = run.copy()
    copied.train(steps=run.state.step + 2, progress=False)
    assert np.abs(np.array(copied.state.parameters[POSES])).max() > 0


def test_poses_and_lenses_are_learned_in_every_so_many_steps_and_the_rest_in_all(run):
    trainer, state = run.trainer, run.state
    assert state.step % 4 == 0
    assert state.step > run.config.refine.coarse_steps
    for _ in range(6):
        after, _ = trainer.advance(state, rate=0.01)
        changed = {
            name
            for name, values in after.parameters.items()
            if not mx.array_equal(values, state.parameters[name])
        }
        assert after.parameters.keys() == state.parameters.keys()
        assert list(after.moments) == list(state.moments), "their order is that of what is compiled"
        others = after.parameters.keys() - {POSES, LENSES}
        assert changed == (others if state.step % 4 else after.parameters.keys())
        state = after
    assert trainer.traces.needless == 0


def test_all_kinds_of_steps_are_tried_before_training(run):
    config = run.config.refine
    coarse = Kind.at(0, config)
    assert coarse == Kind(moves=True, is_coarse=True)
    assert set(Kind.others(coarse, config)) == {Kind(True), Kind()}
    assert Kind.others(Kind(), config) == [Kind(True)], "what is past does not come back"
    assert Kind.others(Kind(True), replace(config, every=1)) == []
    assert Kind.others(Kind.at(0, RefineConfig()), RefineConfig()) == []
    assert Kind.at(0, replace(config, poses=False, lenses=False)) == Kind()


def test_a_run_says_by_how_much_it_corrected_its_views(run):
    found = run.refined
    turns = [
        np.arccos(np.clip((np.trace(a.pose[:, :3].T @ b.pose[:, :3]) - 1) / 2, -1, 1))
        for a, b in zip(run.cameras, run.scene.cameras, strict=True)
    ]
    assert found["poses"]["degrees"]["largest"] == pytest.approx(np.degrees(max(turns)), abs=0.05)
    (lens,) = found["lenses"]
    factor = run.cameras[0].lens.fl_x / run.scene.cameras[0].lens.fl_x
    assert lens["focal_factor"] == pytest.approx(factor, rel=1e-5)
    assert (lens["views"], lens["k1"]) == (8, pytest.approx(run.cameras[3].lens.k1, abs=1e-6))
    assert 0 < found["exposures"]["stops"]["median"] <= found["exposures"]["stops"]["largest"]
    assert 0 < found["colours"]["grey"]["median"] < 0.5
    said = refined_in_words(found)
    assert f"focal lengths by the factor {factor:.4f}" in said
    assert refined_in_words({}) == ""


def test_what_is_corrected_is_chosen_before_the_first_step(run, scene, tmp_path):
    with pytest.raises(InputError, match="60 steps"):
        run.refine(poses=False)
    fresh = Run.begin(scene, CONFIG, out=tmp_path / "run")
    with pytest.raises(InputError, match="correction is 'focus'"):
        fresh.refine(focus=True)
    assert not fresh.refined
    fresh.refine(lenses=True)
    assert set(Run.load(tmp_path / "run").refined) == {"lenses"}
    assert LENSES in fresh.state.parameters


def test_test_views_have_the_lens_that_training_views_share(run, scene):
    lens = run.views("test").cameras[0].lens
    assert lens == run.cameras[0].lens
    assert lens.fl_x != scene.views("test").cameras[0].lens.fl_x


@pytest.mark.parametrize("progress", [True, False])
def test_looking_for_test_cameras_shows_a_bar_unless_there_is_to_be_none(
    run, monkeypatch, progress
):
    bars = []

    def bar(steps, _label, **how):
        bars.append(how["disable"])
        return steps

    monkeypatch.setattr(alignment, "tqdm", bar)
    monkeypatch.setattr(run, "_aligned", {})
    run.evaluate("test", progress=progress)
    assert bars == [None if progress else True]


def test_training_views_are_compared_from_their_refined_cameras(run):
    cameras = run.views("train").cameras
    for index, camera in enumerate(run.cameras):
        np.testing.assert_array_equal(cameras[index].pose, camera.pose)


@pytest.fixture(scope="module")
def trained(scene):
    made = Run.begin(scene, CONFIG)
    for _ in made.fit(Goal(steps=400)):
        pass
    return made


@pytest.mark.parametrize(("scales", "left"), [([0.01] * 6, 0.5), ([0.015] * 3 + [0.0] * 3, 0.1)])
def test_a_camera_that_is_off_finds_its_place_in_a_field(scene, trained, scales, left):
    views = scene.views("train")
    true = np.array(views.cameras.poses, np.float64)
    off = np.random.default_rng(2).normal(scale=scales, size=(len(true), 6)).astype(np.float32)
    moved = replace(views.cameras, poses=corrected_poses(views.cameras.poses, mx.array(off)))
    found = refine_alone(trained.trainer, trained.state, replace(views, cameras=moved)).cameras

    def seen(cameras: Cameras) -> np.ndarray:
        """How far what each camera sees of the middle is off, in radians."""
        poses = np.array(cameras.poses, np.float64)
        middle = 0.5 - poses[:, :, 3]
        own = np.einsum("ni,nij->nj", middle, poses[:, :, :3])
        return own[:, :2] / -own[:, 2:]

    before = np.linalg.norm(seen(moved) - seen(views.cameras), axis=1)
    after = np.linalg.norm(seen(found) - seen(views.cameras), axis=1)
    assert np.median(after) < left * np.median(before), f"{before} before, {after} after"


def test_views_that_move_keep_their_pictures(scene):
    views, train = scene.views("test"), scene.views("train").cameras
    moved = moved_views(views, train, train)
    np.testing.assert_allclose(moved.cameras.poses, views.cameras.poses, atol=1e-5)
    assert moved.pixels is views.pixels
