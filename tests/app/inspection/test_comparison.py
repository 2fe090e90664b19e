"""Cameras of the same images are compared; blurred, badly exposed, and equal images are named."""

import json

import numpy as np
import pytest
from PIL import Image, ImageFilter
from tqdm import tqdm

from nerfmac.app.inspection import compare_cameras
from nerfmac.app.inspection.cameras import differences
from nerfmac.app.inspection.images import image_findings, measure_images
from nerfmac.app.scenes import Frame, load_scene
from nerfmac.common.checks import InputError
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from tests.app.cli.refusals import refused
from tests.app.scenes.scene_files import matrix, save, write_json, write_transforms
from tests.scene_factory import nerfmac


def moved(poses, *, seed=6, scale=3.0):
    """Return poses (n, 3, 4) in the coordinates of a similarity."""
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]
    turn *= np.sign(np.linalg.det(turn))
    found = np.concatenate([turn @ poses[:, :, :3], scale * turn @ poses[:, :, 3:]], axis=2)
    found[:, :, 3] += [1, 2, 3]
    return found


def turned(degrees):
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])


POSES = np.array([matrix(index) for index in range(9)])[:, :3]


def test_a_similarity_is_no_difference():
    away, degrees = differences(moved(POSES), POSES)
    assert away.max() < 1e-9
    assert degrees.max() < 1e-6


def test_one_camera_that_is_elsewhere_is_seen():
    found = moved(POSES)
    found[4, :, 3] += 0.3
    found[7, :, :3] = found[7, :, :3] @ turned(4.0)
    away, degrees = differences(found, POSES)
    assert (away.argmax(), degrees.argmax()) == (4, 7)
    assert away[4] == pytest.approx(0.3 * np.sqrt(3) / 3 / 3.2, rel=0.3)
    assert degrees[7] == pytest.approx(4.0, abs=0.6)


def test_the_command_compares_by_names_without_folders_and_endings(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_transforms(tmp_path / "ours", 9)
    path = write_transforms(tmp_path / "theirs", 12, fl_x=33.0)
    values = json.loads(path.read_text())
    for index, pose in enumerate(moved(np.array([matrix(index) for index in range(12)])[:, :3])):
        frame = values["frames"][index]
        frame |= {"file_path": f"rgb/{index:03d}.webp", "transform_matrix": pose.tolist()}
    (tmp_path / "theirs/images").rename(tmp_path / "theirs/rgb")
    write_json(path, values)
    assert nerfmac("inspect", "ours", "--against", "theirs") == 0
    told = capsys.readouterr().out
    assert "in common  9 images, of 9 and 12" in told
    assert "positions  median difference 0.000% of the mean radius" in told
    assert "rotations  median difference 0.00" in told
    assert "focal      median ratio of the focal lengths 0.9091" in told


def render_video(count):
    """Return images that all differ, as frames of a video do."""
    coarse = np.random.default_rng(8).integers(20, 230, (count, 4, 6, 3), np.uint8)
    return [np.asarray(Image.fromarray(each).resize((24, 16))) for each in coarse]


def test_frames_of_a_video_are_matched_by_what_they_show(tmp_path, caplog, monkeypatch):
    ours, theirs = write_transforms(tmp_path / "ours", 9), write_transforms(tmp_path / "theirs", 12)
    frames = render_video(12)
    for index in range(9):
        save(tmp_path / f"ours/images/{index:03d}.png", frames[index])
    values = json.loads(theirs.read_text())
    order = [7, 2, 9, 4, 11, 1, 0, 10, 3, 8, 5, 6]
    for name, index in enumerate(order):
        noise = np.random.default_rng(name).integers(-1, 2, (16, 24, 3))
        shown = np.clip(0.9 * frames[index] + 9 + noise, 0, 255).astype(np.uint8)
        save(tmp_path / f"theirs/frame_{30 * name:06}.png", shown)
        values["frames"][name] |= {
            "file_path": f"frame_{30 * name:06}.png",
            "transform_matrix": matrix(index),
        }
    write_json(theirs, values)
    caplog.set_level("INFO", logger="nerfmac")
    found = compare_cameras(load_scene(ours), theirs)
    assert len(found.names) == 9
    assert "images/002.png = frame_000030.png" in found.names
    assert found.away.max() < 1e-6
    assert "only 0 images have the same name" in caplog.text


def test_scenes_of_other_images_are_refused(tmp_path, capsys, monkeypatch):
    ours, theirs = write_transforms(tmp_path / "ours", 4), write_transforms(tmp_path / "theirs", 4)
    values = json.loads(theirs.read_text())
    for index, frame in enumerate(values["frames"][1:]):
        frame["file_path"] = f"other{index}.png"
        save(tmp_path / f"theirs/other{index}.png", np.zeros((16, 24, 3), np.uint8))
    write_json(theirs, values)
    with pytest.raises(InputError, match=r"have 1 images with the same name.*expected 3 or more"):
        compare_cameras(load_scene(ours), theirs)
    nowhere = tmp_path / "nowhere"
    flags = "--against", nowhere
    refused(capsys, tmp_path, "inspect", ours, *flags, names=[f"{nowhere} does not exist"])


LENS = Lens.from_fov(1.0, 96, 64)


def texture(seed):
    random = np.random.default_rng(seed)
    coarse = random.integers(60, 190, (8, 12, 3), np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((96, 64)), float)
    return np.clip(smooth + random.normal(0, 12, smooth.shape), 0, 255).astype(np.uint8)


def findings(**changed):
    """Inspect eight textures, some of them `changed`, and return the findings by letters."""
    images = {name: texture(index) for index, name in enumerate("abcdefgh")} | changed
    camera = Camera.look_at((2, 1, 3), (0, 0, 0), (0, 0, 1), LENS)
    frames = [Frame(camera, image, name) for name, image in images.items()]
    with tqdm(disable=True) as bar:
        return image_findings(list(images), measure_images(frames, bar))


def blurred(image):
    return np.asarray(Image.fromarray(image).filter(ImageFilter.GaussianBlur(2)))


def lit(image, gain, offset=0):
    return np.clip(image * gain + offset, 0, 255).astype(np.uint8)


def half(image, value):
    painted = image.copy()
    painted[:30] = value
    return painted


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (blurred(texture(2)), "c is blurred"),
        (lit(texture(2), 0.1), "c is too dark: mean 1"),
        (lit(texture(2), 0.5, 200), "c is too bright: mean 2"),
        (half(texture(2), 255), "c is overexposed: 47% of the pixels are white"),
        (lit(texture(2), 1.0, 60), "c is brighter than the others"),
    ],
)
def test_a_bad_image_is_named_with_what_is_wrong(image, words):
    found = findings(c=image)
    assert any(line.startswith(words) for line in found), found
    assert all(line.startswith("c is") for line in found)


def before(backdrop, image):
    """Return the image's middle before a backdrop of one value."""
    painted = np.full_like(image, backdrop)
    painted[16:48, 32:64] = image[16:48, 32:64]
    return painted


@pytest.mark.parametrize("backdrop", [0, 255])
def test_a_backdrop_that_most_images_have_is_no_bad_exposure(backdrop):
    images = {name: before(backdrop, texture(index)) for index, name in enumerate("abcdefgh")}
    assert findings(**images) == []
    images["d"] = before(backdrop, lit(texture(3), 0.1))
    assert any(line.startswith("d is too dark: mean 1") for line in findings(**images))
    images["d"] = before(backdrop, lit(texture(3), 0.5, 200))
    assert any(line.startswith("d is too bright: mean 2") for line in findings(**images))


def test_many_findings_of_one_kind_are_counted_and_a_few_named():
    video = {name: texture(0) for name in "abcdefgh"}
    (line,) = findings(**video)
    assert line.startswith("7 images are the same as an earlier one, such as: b is the same")
    assert "d is the same" in line
    assert "e shows" not in line
    few = {name: texture(0) for name in "abcdef"}
    assert len(findings(**few)) == 5
    noise = np.random.default_rng(0).integers(-2, 3, (64, 96, 3))
    noisy = np.clip(texture(1).astype(int) + noise, 0, 255).astype(np.uint8)
    assert findings(g=noisy) == ["g is the same image as b"]
    assert findings() == []
