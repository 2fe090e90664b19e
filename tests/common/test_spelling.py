"""Paths have the names that their folders list, and names are compared as APFS compares them."""

import unicodedata
from pathlib import Path

import pytest

from nerfmac.common import name_key, spelled

COMPOSED = "Küche"
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)


def test_a_path_has_the_names_that_its_folders_list(tmp_path):
    folder = tmp_path / DECOMPOSED / "Images"
    folder.mkdir(parents=True)
    (folder / "IMG_1.jpg").touch()
    found = folder / "IMG_1.jpg"
    assert spelled(found) == spelled(tmp_path / COMPOSED / "Images/IMG_1.jpg") == found
    other = tmp_path / COMPOSED.upper() / "IMAGES" / "img_1.JPG"
    assert spelled(other) == (found if other.exists() else other)
    for missing in (folder / "IMG_2.jpg", tmp_path / "Kuche", folder / "ü.jpg", folder / "../x"):
        assert spelled(missing) == missing


def test_a_path_through_links_and_parents_is_kept(tmp_path, monkeypatch):
    (tmp_path / "Photos").mkdir()
    (tmp_path / "Link").symlink_to(tmp_path / "Photos")
    (tmp_path / "Photos/ä.png").touch()
    monkeypatch.chdir(tmp_path)
    for name in ("Link/ä.png", "Photos/../Link/ä.png", "./Photos/ä.png", ".", ".."):
        path = Path(name)
        assert spelled(path) == path
    given = Path("LINK/Ä.PNG")
    assert spelled(given) == (Path("Link/ä.png") if given.exists() else given)


@pytest.mark.parametrize("other", ["IMG_Ä.jpg", "img_a\u0308.JPG", "IMG_A\u0308.JPG"])
def test_keys_of_names_that_apfs_takes_for_the_same_are_equal(other):
    assert name_key(other) == name_key("img_ä.jpg")
    assert name_key(other) != name_key("img_a.jpg")
