"""A kernel's text is whole: its dialect first, each header once, nothing left to include."""

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
    for header in sources.kernels_folder().glob("*.h"):
        own = sources._INCLUDE.sub("", header.read_text()).strip()
        assert text.count(own) <= 1


def test_a_header_is_pasted_once_however_often_it_is_included(tmp_path, monkeypatch):
    files = {
        "dialects/cpu.h": "// dialect",
        "one.h": '#include "two.h"\nint one;',
        "two.h": "int two;",
        "toy.metal": '#include "two.h"\n#include "one.h"\n#include "two.h"\nint toy;',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sources, "kernels_folder", lambda: tmp_path)
    text = sources.kernel_source.__wrapped__("toy", "cpu")
    assert text.split() == ["//", "dialect", "int", "two;", "int", "one;", "int", "toy;"]
