"""The cameras and the photos that the page shows in the frusta, of trained and held-out views."""

import io

import numpy as np
import pytest
from PIL import Image

from nerfmac.app.scenes.images import decode_thumbnail


def test_the_page_receives_the_photos_it_asks_for_also_the_held_out_ones(page):
    page.open().settle()
    page.say("thumbnails").settle()
    sent = [(each["first"], jpegs) for each, jpegs in page.messages if each["kind"] == "thumbnails"]
    splits = page.session.run.images().splits
    count = len(splits["train"]) + len(splits["test"])
    assert [first for first, _ in sent] == [*range(0, count, 8)]
    photos = [jpeg for _, jpegs in sent for jpeg in jpegs]
    assert len(photos) == count
    apart = []
    for frame in page.session.run.images().splits["train"]:
        photo, _ = frame.decode(4)
        alpha = photo[..., 3:] / 255
        over_white = alpha * photo[..., :3] + (1 - alpha) * 255
        seen = np.asarray(Image.open(io.BytesIO(photos[5])).resize(photo.shape[1::-1]), float)
        apart.append(np.abs(seen - over_white).mean())
    assert np.argmin(apart) == 5
    assert apart[5] < 20.0


def test_cameras_of_held_out_photos_are_told_apart_and_can_be_compared(page):
    page.open().settle()
    run = page.session.run
    (message,) = page.take("cameras")
    held_out = [camera["is_held_out"] for camera in message["cameras"]]
    trained, tested = (len(run.images().splits[split]) for split in ("train", "test"))
    assert held_out == [False] * trained + [True] * tested
    frame = run.images().splits["test"][0]
    assert message["names"][trained] == frame.name
    assert message["cameras"][trained]["pose"] == pytest.approx(frame.camera.pose.ravel().tolist())
    page.say("stand", index=trained).settle()
    assert page.take("photo")[0]["name"] == frame.name
    page.say("stand", index=trained + tested).settle()
    assert f"has {trained + tested} photos" in page.notice


def test_a_thumbnail_is_small_and_upright(tmp_path):
    image = Image.new("RGB", (800, 400), (200, 10, 10))
    image.paste((10, 10, 200), (0, 0, 400, 400))
    exif = image.getexif()
    exif[274] = 6  # turn it by 90 degrees
    image.save(tmp_path / "a.jpg", exif=exif)
    small = decode_thumbnail(tmp_path / "a.jpg", 96)
    assert small.shape == (96, 48, 3)
    assert small[10, 24, 2] > 150, "the left half is now the upper half"
    assert small[86, 24, 0] > 150
    stored = decode_thumbnail(tmp_path / "a.jpg", 96, upright=False)
    assert stored.shape == (48, 96, 3)
