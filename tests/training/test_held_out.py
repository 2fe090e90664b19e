"""Test cameras follow refined training cameras, and find their own places in a field."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Goal, InputError
from nerfmac.app.run import Run, Training, resume
from nerfmac.app.run.refinements import refinement_summary
from nerfmac.config import REFINED, override
from nerfmac.geometry.cameras import Cameras
from nerfmac.refine.refinement import LENSES, POSES, align_cameras, moved_poses
from nerfmac.training.held_out import aligned_views, optimize_poses
from nerfmac.training.trainer import Trainer
from tests.scene_factory import CONFIG

pytestmark = pytest.mark.usefixtures("on_the_cpu")


@pytest.fixture(scope="module")
def run(scene):
    made = Run.begin(
        scene,
        override(
            CONFIG, refine=dict.fromkeys(REFINED, True) | {"pose_rate": 2e-3, "lens_rate": 4e-3}
        ),
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("nerfmac.refine.refinement.CAMERA_WARMUP_STEPS", 8)
        resume(made, Goal(steps=64), progress=False)
    return made


def test_cameras_and_exposures_come_back_from_a_runs_folder(run, tmp_path):
    run.save(tmp_path)
    loaded = Run.load(tmp_path)
    for refined, given in zip(run.cameras, run.scene.cameras("train"), strict=True):
        assert np.abs(refined.pose - given.pose).max() > 1e-5, "every camera is refined"
        assert abs(refined.lens.fl_x / given.lens.fl_x - 1.0) > 1e-6
        assert refined.lens.k1 != given.lens.k1
    for got, want in zip(loaded.cameras, run.cameras, strict=True):
        np.testing.assert_array_equal(got.pose, want.pose)
        assert got.lens == want.lens
    assert loaded.state.average.keys() == run.state.average.keys()
    assert loaded.render(run.cameras[0]).color.shape == (16, 20, 3)


def test_a_copy_and_a_run_that_goes_on_keep_their_corrections(run):
    copied = run.copy()
    resume(copied, Goal(steps=run.state.step + 2), progress=False)
    assert np.abs(np.array(copied.state.parameters[POSES])).max() > 0


def test_poses_and_lenses_are_learned_in_every_eighth_step_and_the_rest_in_all(run):
    trainer, state = Trainer(run.model, run.images().views("train")), run.state
    assert state.step % 8 == 0
    for _ in range(10):
        after, _ = trainer.advance(state, factor=1 / 3)
        changed = {
            name
            for name, values in after.parameters.items()
            if not mx.array_equal(values, state.parameters[name])
        }
        assert after.parameters.keys() == state.parameters.keys()
        assert list(after.moments) == list(state.moments), "their order is that of what is compiled"
        others = after.parameters.keys() - {POSES, LENSES}
        assert changed == (others if state.step % 8 else after.parameters.keys())
        state = after
    assert trainer.traces.needless == 0


def test_a_run_says_by_how_much_it_corrected_its_views(run):
    found = run.refined
    turns = [
        np.arccos(np.clip((np.trace(a.pose[:, :3].T @ b.pose[:, :3]) - 1) / 2, -1, 1))
        for a, b in zip(run.cameras, run.scene.cameras("train"), strict=True)
    ]
    assert found["poses"]["degrees"]["largest"] == pytest.approx(np.degrees(max(turns)), abs=0.05)
    (lens,) = found["lenses"]
    factor = run.cameras[0].lens.fl_x / run.scene.cameras("train")[0].lens.fl_x
    assert lens["focal_factor"] == pytest.approx(factor, rel=1e-5)
    assert (lens["views"], lens["k1"]) == (8, pytest.approx(run.cameras[3].lens.k1, abs=1e-6))
    assert 0 < found["exposures"]["stops"]["median"] <= found["exposures"]["stops"]["largest"]
    assert 0 < found["colors"]["gray"]["median"] < 0.5
    said = refinement_summary(found)
    assert f"focal lengths by the factor {factor:.4f}" in said
    assert refinement_summary({}) == ""


def test_what_is_corrected_is_chosen_before_the_first_step(run, scene, tmp_path):
    with pytest.raises(InputError, match="64 steps"):
        run.refine(poses=False)
    training = Training.begin(Run.begin(scene, CONFIG), tmp_path / "run")
    fresh = training.run
    with pytest.raises(InputError, match="correction is 'focus'"):
        training.refine(focus=True)
    assert not fresh.refined
    training.refine(lenses=True)
    assert set(Run.load(tmp_path / "run").refined) == {"lenses"}
    assert LENSES in fresh.state.parameters


def test_test_views_have_the_lens_that_training_views_share(run, scene):
    lens = run.views("test").cameras[0].lens
    assert lens == run.cameras[0].lens
    assert lens.fl_x != scene.views("test").cameras[0].lens.fl_x
    for index, camera in enumerate(run.cameras):
        np.testing.assert_array_equal(run.views("train").cameras[index].pose, camera.pose)


def test_aligned_views_follow_the_training_cameras_alone(run, scene):
    test = scene.views("test")
    aligned = aligned_views(run.model, run.state, test).cameras
    refined = Cameras.stack(run.cameras)
    want = align_cameras(test.cameras, scene.views("train").cameras, refined)
    np.testing.assert_array_equal(aligned.poses, want.poses)
    assert aligned[0].lens == run.cameras[0].lens
    assert np.abs(np.array(run.views("test").cameras.poses - aligned.poses)).max() > 1e-5


@pytest.fixture(scope="module")
def trained(scene):
    made = Run.begin(scene, CONFIG)
    for _ in Training(made).fit(Goal(steps=400)):
        pass
    return made


@pytest.mark.parametrize(("scales", "left"), [([0.01] * 6, 0.5), ([0.015] * 3 + [0.0] * 3, 0.2)])
def test_a_camera_that_is_off_finds_its_place_in_a_field(scene, trained, scales, left):
    views = scene.views("train")
    true = np.array(views.cameras.poses, np.float64)
    off = np.random.default_rng(2).normal(scale=scales, size=(len(true), 6)).astype(np.float32)
    moved = replace(views.cameras, poses=moved_poses(views.cameras.poses, mx.array(off)))
    found = optimize_poses(trained.model, trained.state, replace(views, cameras=moved)).cameras

    def seen(cameras: Cameras) -> np.ndarray:
        """Return the error in radians of each camera's view of the center."""
        poses = np.array(cameras.poses, np.float64)
        middle = 0.5 - poses[:, :, 3]
        own = np.einsum("ni,nij->nj", middle, poses[:, :, :3])
        return own[:, :2] / -own[:, 2:]

    before = np.linalg.norm(seen(moved) - seen(views.cameras), axis=1)
    after = np.linalg.norm(seen(found) - seen(views.cameras), axis=1)
    assert np.median(after) < left * np.median(before), f"{before} before, {after} after"
