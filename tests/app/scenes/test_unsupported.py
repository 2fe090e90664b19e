"""Images in formats that are not read are named as such, once, by every command alike."""

import pytest

from nerfmac.app.capture import capture_scene
from nerfmac.app.capture.inputs import unsupported_in
from nerfmac.app.scenes import load_scene
from tests.app.capture.test_capture import photos, solved, somewhere
from tests.app.cli.refusals import refused
from tests.app.scenes.scene_files import pixels, save, write_transforms

__all__ = ["photos", "solved", "somewhere"]

COMMANDS = {"inspect": (), "capture": ("--out", "out"), "train": ("--out", "out")}
TOLD = [
    "3 images such as",
    "OpenEXR (.exr), which is not supported: convert to PNG or JPEG in sRGB",
]


def write_exr(folder, count=3):
    names = [f"images/{index:03d}.exr" for index in range(count)]
    frame = {index: {"file_path": name} for index, name in enumerate(names)}
    path = write_transforms(folder, count, absent=range(count), frame=frame)
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"v/1\x01 not decoded")
    return path


@pytest.mark.parametrize("command", ["inspect", "train"])
def test_a_scene_of_them_is_refused(tmp_path, capsys, command):
    write_exr(tmp_path / "scene")
    refused(capsys, tmp_path, command, tmp_path / "scene", *COMMANDS[command], names=TOLD)


def test_the_image_of_the_same_stem_is_found(tmp_path, caplog):
    path = write_exr(tmp_path)
    for index in range(3):
        save(tmp_path / f"images/{index:03d}.png", pixels(index))
    frames = load_scene(path, split="none").splits["train"]
    assert [frame.image.name for frame in frames] == [f"{index:03d}.png" for index in range(3)]
    (line,) = caplog.messages
    assert line.startswith("3 of 3 images are not at the path")


def test_a_capture_skips_them_with_one_line_unless_they_are_beside_their_photo(
    photos, solved, caplog
):
    (photos / "00.cr2").write_bytes(b"raw of 00.png")
    capture_scene(photos, "paired", progress=False)
    assert caplog.messages == []
    (photos / "other.cr2").write_bytes(b"raw alone")
    assert [path.name for path in unsupported_in(photos)] == ["00.cr2", "other.cr2"]
    capture_scene(photos, "mixed", progress=False)
    (line,) = caplog.messages
    assert line.startswith(f"{photos / 'other.cr2'} is in the format camera raw (.cr2)")
    assert line.endswith("skipping them")
