"""A kernel's text is whole: its dialect first, each header once, nothing left to include."""

from pathlib import Path

import pytest

from nerfmac.backend import sources

OPERATIONS = sorted(path.stem for path in sources.kernels_folder().glob("*.metal"))
DIALECTS = ("metal", "cuda", "cpu")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_text_of_a_kernel_needs_no_other_file_of_ours(operation, dialect):
    text = sources.kernel_source(operation, dialect)
    assert '#include "' not in text
    assert text.startswith(sources.dialect_source(dialect))
    for header in sources.kernels_folder().rglob("*.h"):
        own = sources._INCLUDE.sub("", header.read_text()).strip()
        is_anothers = header.parent.name in set(DIALECTS) - {dialect}
        assert text.count(own) <= (0 if is_anothers else 1)


def test_the_networks_read_the_dialects_own_tiles():
    for dialect in DIALECTS:
        tile = (sources.kernels_folder() / "dialects" / dialect / "tile.h").read_text()
        _, _, own = tile.rpartition('#include "')[2].partition("\n")  # what no header replaces
        assert "tile_gradient_store" in own
        assert sources.kernel_source("networks", dialect).count(own.strip()) == 1


def text_of(files: dict[str, str], dialect: str, folder: Path, monkeypatch) -> list[str]:
    """The words of the kernel `toy` in a folder of these files."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setattr(sources, "kernels_folder", lambda: folder)
    return sources.kernel_source.__wrapped__("toy", dialect).split()


def test_a_header_is_pasted_once_however_often_it_is_included(tmp_path, monkeypatch):
    files = {
        "dialects/cpu/prelude.h": "// dialect",
        "one.h": '#include "two.h"\nint one;',
        "two.h": "int two;",
        "toy.metal": '#include "two.h"\n#include "one.h"\n#include "two.h"\nint toy;',
    }
    words = text_of(files, "cpu", tmp_path, monkeypatch)
    assert words == ["//", "dialect", "int", "two;", "int", "one;", "int", "toy;"]


@pytest.mark.parametrize(("dialect", "tile"), [("cpu", "own;"), ("metal", "shared;")])
def test_a_header_is_the_dialects_own_where_it_has_one(tmp_path, monkeypatch, dialect, tile):
    files = {
        "dialects/cpu/prelude.h": "cpu;",
        "dialects/metal/prelude.h": "metal;",
        "dialects/cpu/tile.h": "own;",
        "dialects/cuda/tile.h": "another;",
        "tile.h": "shared;",
        "two.h": '#include "tile.h"\ntwo;',
        "toy.metal": '#include "two.h"\n#include "tile.h"\ntoy;',
    }
    assert text_of(files, dialect, tmp_path, monkeypatch) == [f"{dialect};", tile, "two;", "toy;"]


def test_a_dialects_own_header_may_include_a_shared_one(tmp_path, monkeypatch):
    files = {
        "dialects/cpu/prelude.h": "cpu;",
        "dialects/cpu/tile.h": '#include "two.h"\nown;',
        "two.h": "two;",
        "toy.metal": '#include "tile.h"\ntoy;',
    }
    assert text_of(files, "cpu", tmp_path, monkeypatch) == ["cpu;", "two;", "own;", "toy;"]
