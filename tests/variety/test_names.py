"""File names do not affect a capture: COLMAP matches the same pairs whatever the photos are called,
and the results have the names of the photos."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from nerfmac.app.capture.inputs import take_images
from nerfmac.app.capture.pairs import in_sequence
from nerfmac.app.capture.source import Source
from nerfmac.app.capture.structure import Solver
from nerfmac.geometry.lenses import Lens
from tests.variety import paths
from tests.variety.worlds import World, table

pytest.importorskip("pycolmap", reason="needs pycolmap, of the extra capture")

LENS = Lens(320, 240, 280.0, 280.0, 160.0, 120.0)
COUNT = 3
NAMES = {
    "plain": [f"photo_{index}.jpg" for index in range(COUNT)],
    "blanks": ["IMG_0001 2.jpg", "IMG_0001 3.jpg", "WhatsApp Image 2026-05-01 at 10.00.00.jpg"],
    "comments and quotes": ["#1.jpg", 'it\'s "one".jpg', "100%d.jpg"],
    "line breaks": ["a\nb.jpg", "c\td.jpg", "e .jpg"],
    "Unicode": ["Küche.jpg", "ku\u0308che 2.jpg", "写真.jpg"],
    "folders": ["front door/1.jpg", "front door/2.jpg", "back #2/1.jpg"],
    "one stem": ["IMG_1.jpg", "IMG_1.png", "IMG_1.webp"],
    "options": ["-i.jpg", "--help.jpg", "$HOME.jpg"],
}


@pytest.fixture(scope="module")
def photos():
    """Images of an object from three sides."""
    cameras = paths.ring(COUNT, 1.0, 0.5, LENS, arc=24.0)
    return [World(table(0.3, 1.5), 0.004).render(camera)[0] for camera in cameras]


@pytest.fixture(scope="module")
def plain(tmp_path_factory, photos):
    return matched(tmp_path_factory.mktemp("plain"), photos, NAMES["plain"])


def matched(folder, photos, names):
    """Return the number of matches of each pair, keyed by the indices of the photos."""
    index = {}
    for number, (photo, name) in enumerate(zip(photos, names, strict=True)):
        path = folder / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(photo).save(path, quality=95)
        index[path] = number
    bar = SimpleNamespace(update=lambda count=1: None, reset=lambda total: None)
    found = Source(folder / "photos").photos
    assert {*found} == {*index}
    taken = take_images(found, folder / "images", 320, bar, {})
    assert len({image.name for image in taken}) == COUNT
    assert all((folder / "images" / image.name).is_file() for image in taken)
    by_name = {image.name: index[path] for image, path in zip(taken, found, strict=True)}
    (folder / "work").mkdir()
    solver = Solver(folder / "work", folder / "images", taken, lambda *_: nullcontext(bar))
    matches = solver.matches_of(in_sequence([image.name for image in taken]))
    return {frozenset(by_name[name] for name in pair): len(some) for pair, some in matches.items()}


@pytest.mark.parametrize("kind", [kind for kind in NAMES if kind != "plain"])
def test_photos_are_matched_whatever_they_are_called(tmp_path, photos, plain, kind):
    assert len(plain) == COUNT
    found = matched(tmp_path / "named", photos, NAMES[kind])
    assert found.keys() == plain.keys()
    for pair, count in plain.items():
        # Other file formats have other rounding errors.
        assert found[pair] == pytest.approx(count, rel=0.15 if kind == "one stem" else 0.05)
    assert np.median([*plain.values()]) > 50
