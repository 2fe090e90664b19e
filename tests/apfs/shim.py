"""A library for Linux that makes a folder compare file names as APFS on a Mac does."""

import functools
import os
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
FOLDED = 4  # Maximum number of code points that a code point is folded to.
MISSING = "needs Linux and a C compiler (cc)"


def is_available() -> bool:
    return sys.platform == "linux" and shutil.which("cc") is not None


def build(folder: Path) -> Path:
    """Compile the library in `folder` and return its path."""
    (folder / "folding.h").write_text("".join(_foldings()))
    library = folder / "apfs.so"
    command = ["cc", "-std=gnu11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC"]
    command += [f"-DFOLDED={FOLDED}", f"-I{folder}", "-o", library, SOURCE, "-ldl"]
    subprocess.run(command, check=True)
    return library


def environment(library: Path, root: Path) -> dict[str, str]:
    """Return the environment of a process for which the folder `root` is on APFS."""
    return os.environ | {"LD_PRELOAD": str(library), "APFS_ROOT": os.path.realpath(root)}


def _foldings() -> Iterator[str]:
    decomposed = functools.partial(unicodedata.normalize, "NFD")
    for code in range(sys.maxunicode + 1):
        if not 0xD800 <= code < 0xE000:  # Surrogates are no characters of UTF-8.
            folded = decomposed(decomposed(chr(code)).casefold())
            assert len(folded) <= FOLDED, hex(code)
            if folded != chr(code):
                yield f"{{{code}, {{{','.join(str(ord(letter)) for letter in folded)}}}}},\n"
