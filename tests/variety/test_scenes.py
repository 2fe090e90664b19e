"""Scenes are read right, or one line names what is wrong with them, for all pairs of the values of
the factors in `scenes.FACTORS`.

The fewest scenes are read that contain each pair of values, and in daily tests each pair is read in
each format.
"""

import logging
import re

import numpy as np
import pytest

from nerfmac import load_scene
from tests.conftest import IS_DAILY
from tests.variety.formats import write_scene
from tests.variety.scenes import FACTORS, cases, fewest, views_of

CASES = cases() if IS_DAILY else fewest(cases())
EXPECTED = {
    ("holes", "a photo"): r"1 of \d+ images of .* do(es)? not exist|no 'test' views to evaluate|"
    "1 files look like masks",
    ("holes", "a camera"): r"1 of \d+ images have no camera|1 files look like masks",
    ("holes", "a depth image"): r"1 depth images of .* do not exist",
    ("depth", "along the ray"): r"along the ray",
    ("depth", "marker"): r"65\.?535",
    ("depth", "meters"): r"all depths multiplied by 1000",
    ("units", "100"): r"units from the origin",
    ("units", "0.02"): r"units from the origin",
    ("origin", "far"): r"units from the origin",
    ("subject", "plane"): r"units from the origin|all cameras of .* look in the same direction",
    ("subject", "object"): r"units from the origin",
    ("subject", "room"): r"units from the origin|most cameras of .* face outward",
    ("subject", "forward-facing"): r"units from the origin|most cameras of .* face outward",
}
"""Warnings that name a factor. All other warnings are false alarms."""


def identifier(case):
    usual = {factor: values[0] for factor, values in FACTORS.items()}
    return ", ".join(f"{k} {v}" for k, v in case.items() if v != usual[k] or k == "format")


@pytest.mark.parametrize("case", CASES, ids=identifier)
def test_a_scene_is_read_right_or_one_line_names_the_factor(tmp_path, caplog, case):
    views = views_of(case)
    folder = tmp_path / "scene"
    write_scene(folder, case, views)
    caplog.set_level(logging.WARNING, "nerfmac")
    scene = load_scene(folder)
    expected = [text for (factor, value), text in EXPECTED.items() if case[factor] == value]
    for message in caplog.messages:
        assert any(re.search(text, message) for text in expected), message
    frames = [frame for part in scene.splits.values() for frame in part]
    gaps = {"a photo": 1, "a camera": 1}.get(case["holes"], 0)
    assert len(frames) == len(views) - gaps
    compare(folder, frames, views, case)


def compare(folder, frames, views, case):
    """Compare the cameras, images, masks, and depths of frames with the truth."""
    stems = {view.name.rsplit("/")[-1]: view for view in views}
    truth = [stems[frame.image.name] for frame in frames]
    poses = np.stack([frame.camera.pose for frame in frames]).astype(float)
    true = np.stack([view.pose for view in truth])
    left, _, right = np.linalg.svd(
        (poses[:, :, :3] @ true[:, :, :3].transpose(0, 2, 1)).sum(axis=0)
    )
    turn = left @ right
    assert np.linalg.det(turn) == pytest.approx(1)
    np.testing.assert_allclose(turn @ true[:, :, :3], poses[:, :, :3], atol=1e-4)
    eyes, expected = poses[:, :, 3], true[:, :, 3] @ turn.T
    eyes, expected = eyes - eyes.mean(axis=0), expected - expected.mean(axis=0)
    scale = (eyes * expected).sum() / (expected**2).sum()
    away = np.linalg.norm(eyes - scale * expected, axis=1).max()
    assert away < 1e-3 * np.linalg.norm(eyes, axis=1).max()
    for frame, view in zip(frames, truth, strict=True):
        lens, own = frame.camera.lens, view.lens
        for key in ("width", "height", "fl_x", "fl_y", "cx", "cy", "k1"):
            assert getattr(lens, key) == pytest.approx(getattr(own, key), rel=1e-3), key
        pixels, mask = frame.decode(4 if case["image"] == "opaque alpha" else 3)
        image = view.image[..., 1:2] if case["image"] == "16 bits" else view.image
        error = np.sqrt(np.mean((pixels[..., :3] - image.astype(float)) ** 2))
        assert error < {"png": 1, "16 bits": 1, "opaque alpha": 1}.get(case["image"], 35)
        if case["masks"] != "none":
            np.testing.assert_array_equal(mask, view.mask)
        else:
            assert mask is None
        compare_depth(frame, view, case, scale)


def compare_depth(frame, view, case, scale):
    if case["depth"] == "none":
        assert frame.depth is None
        return
    if frame.depth is None:
        assert case["holes"] == "a depth image"
        return
    depth, _ = frame.decode_depth()
    wanted = scale * view.depth
    known = (depth > 0) & np.isfinite(wanted)
    assert known.any()
    assert np.median(np.abs(depth[known] / wanted[known] - 1)) < 0.02
