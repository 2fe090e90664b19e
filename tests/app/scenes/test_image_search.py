"""Images are found at the given path or by the end of their path, only inside the scene folder."""

import pytest

from nerfmac.app.scenes import load_scene
from nerfmac.app.scenes.image_search import ImageSearch
from tests.app.scenes.scene_files import pixels, save, write_transforms


def make(folder, *names: str):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def find(folder, *names: str, **options):
    found = ImageSearch(folder, **options).find_all(names, "file.json")
    return [path and str(path.relative_to(folder)) for path in found]


def test_a_name_without_its_ending_is_found(tmp_path):
    (tmp_path / "r_0").mkdir()
    make(tmp_path, "r_0.png", "r_1.JPG", "r_2.jpeg", "sub/r_3.png", "r_4.jpg", "r_4.jpg.png")
    assert find(tmp_path, "./r_0", "r_2", "sub\\r_3.png") == ["r_0.png", "r_2.jpeg", "sub/r_3.png"]
    (found,) = ImageSearch(tmp_path).find_all(["r_1"], "file.json")
    assert found is not None, "called r_1.jpg where the file system ignores case"
    assert found.samefile(tmp_path / "r_1.JPG")
    assert find(tmp_path, "r_4.jpg") == ["r_4.jpg"], "a mask is no image"
    assert find(tmp_path, str(tmp_path / "r_2.jpeg")) == ["r_2.jpeg"]
    assert find(tmp_path, "r_9") == [None]


@pytest.mark.parametrize(
    ("given", "there", "found"),
    [
        ("C:\\Users\\me\\scene\\images\\1.png", ("images/1.png",), "images/1.png"),
        ("/home/me/scene/images/1.png", ("rgb/1.png",), "rgb/1.png"),
        ("/home/me/scene/images/1.png", ("images/1.jpg", "images_4/1.jpg"), "images/1.jpg"),
        ("images/1.png", ("images/1.JPEG",), "images/1.JPEG"),
        ("images/1.png", ("rgb/1.png", "masks/1.png", "depth_8/1.png"), "rgb/1.png"),
        ("../images/1.png", ("images/1.png",), "images/1.png"),
        ("images/1.png", ("left/1.png", "right/1.png"), None),
        ("right/images/1.png", ("left/images/1.png", "images/2.png"), "left/images/1.png"),
        ("images/1.png", ("images/11.png", "images/1.txt"), None),
        ("images/1.png", (".thumbnails/1.png",), None),
        ("..", ("images/1.png",), None),
    ],
)
def test_a_image_elsewhere_is_found_where_one_alone_fits(tmp_path, given, there, found, caplog):
    assert find(make(tmp_path, *there), given) == [found]
    assert caplog.messages == ([] if found is None else [caplog.messages[0]])
    if found:
        assert caplog.messages[0].startswith("1 of 1 images are not at the path in file.json")


def test_nothing_outside_the_scene_is_found(tmp_path):
    make(tmp_path, "images/1.png", "scene/images/2.png")
    names = "../images/1.png", str(tmp_path / "images/1.png"), "images/2.png"
    assert find(tmp_path / "scene", *names) == [None, None, "images/2.png"]


def test_a_image_that_another_name_has_is_not_given_away(tmp_path):
    make(tmp_path, "test/r_0.png", "test/r_1.png")
    assert find(tmp_path, "train/r_0.png", "test/r_0.png") == [None, "test/r_0.png"]
    assert find(tmp_path, "C:/train/r_0.png", "C:/test/r_1.png", tail=2) == [None, "test/r_1.png"]


@pytest.mark.parametrize(
    ("channels", "size"), [(4, (24, 16)), (3, (48, 32)), (3, (24, 16))], ids=str
)
def test_what_differs_from_the_rest_is_not_taken_for_a_missing_image(
    tmp_path, channels, size, caplog
):
    path = write_transforms(tmp_path, 6, absent=(1, 4))
    for index in range(6):
        save(tmp_path / f"originals/{index:03d}.png", pixels(index, channels, *size))
    found = {frame.image for frames in load_scene(path).splits.values() for frame in frames}
    is_like = (channels, size) == (3, (24, 16))
    assert len(found) == (6 if is_like else 4)
    assert ("2 of 6 images of" in caplog.text) == (not is_like)
    assert ("originals/001.png" in caplog.text) or is_like
    assert ("using the other 4" in caplog.text) == (not is_like)
