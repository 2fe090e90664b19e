"""Catalog of public NeRF scenes with their sources, licenses, and checksums, in `catalog.json`.

The URLs and checksums were copied from other programs that download the same files. If no checksum
has been published, the checksum is None.

    nerf-synthetic, llff   Address and SHA-256: nerfmirror.py of github.com/yxlao/nerfmirror.
                           nerfbaselines had the same SHA-256 for the authors' files on Google Drive
                           (datasets/blender.py before August 2024, datasets/llff.py before
                           September 2024). Licenses: README.txt in the archive of nerf-synthetic.
    mipnerf360             Addresses: examples/datasets/download_dataset.py of
                           github.com/nerfstudio-project/gsplat.
    instant-ngp            The SHA-256 values were computed from the files of the commit in the URL.
"""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from nerfmac.common import InputError, read_as, read_fields

WIDTH, LABEL = 80, 11  # Widths of the listing and of its labels in columns.


@dataclass(frozen=True)
class File:
    """A file to download."""

    url: str
    path: str  # Path in the scene folder or, for an archive, in the collection folder.
    checksum: str | None  # `sha256:` and the SHA-256 of the file, or None.


@dataclass(frozen=True)
class Collection:
    """Collection of scenes that were published together."""

    name: str
    about: str
    scenes: tuple[str, ...]
    size: str  # Download size of one scene in the collection, as stated by the source.
    license: str
    page: str  # URL of the web page by the authors.
    files: tuple[File, ...]
    inside: str | None = ""
    """Folder in the archive that contains the scene folders, or None if the files are not
    archives."""

    @property
    def checked(self) -> str:
        """Description of how the download is verified."""
        if self.inside is None:
            return "each file is verified with its SHA-256"
        if self.files[0].checksum:
            return "one archive, verified with its published SHA-256"
        return "one archive, verified only with the CRC-32 of its files"

    def lines(self) -> Iterator[str]:
        """Yield lines that describe the collection, at most `WIDTH` columns wide."""
        yield f"{self.name}: {self.about}"
        rows = {
            "scenes": ", ".join(self.scenes),
            "size": f"{self.size}; {self.checked}",
            "license": self.license,
            "source": self.files[0].url if self.inside is not None else f"{len(self.files)} files",
            "authors": self.page,
        }
        for name, text in rows.items():
            width = WIDTH - LABEL
            lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
            yield f"  {name}".ljust(LABEL) + lines[0]
            yield from (" " * LABEL + line for line in lines[1:])


COLLECTIONS = tuple(
    read_as(Collection, entry)
    for entry in read_fields(Path(__file__).with_name("catalog.json")).objects("collections")
)


def find(name: str) -> tuple[Collection, str]:
    """Return the collection and the name SCENE of a scene named SCENE or COLLECTION/SCENE."""
    given = name.strip("/").split("/")
    found = [
        (collection, scene)
        for collection in COLLECTIONS
        for scene in collection.scenes
        if given in ([scene], [collection.name, scene])
    ]
    if len(found) == 1:
        return found[0]
    if found:
        full = " or ".join(f"{collection.name}/{scene}" for collection, scene in found)
        raise InputError(f"{len(found)} public scenes have the name {name!r}; use {full}")
    scenes = [scene for collection in COLLECTIONS for scene in collection.scenes]
    near = get_close_matches(given[-1], scenes, n=1)
    meant = f"did you mean {near[0]}?" if near else "list them with `nerfmac data`"
    raise InputError(f"unknown public scene {name!r}; {meant}")
