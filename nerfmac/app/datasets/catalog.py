"""Catalog of public NeRF scenes with their sources, licenses, and checksums.

The URLs and checksums were copied from other programs that download the same files. A comment at
each collection specifies the source. If no checksum has been published, the checksum is None.
"""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from nerfmac.common import InputError, read_json

WIDTH = 80  # Width of the listing in columns.


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
            first, rest = f"  {name:9}", " " * 11
            yield from textwrap.wrap(
                text,
                WIDTH,
                initial_indent=first,
                subsequent_indent=rest,
                break_long_words=False,
                break_on_hyphens=False,
            )


_NGP = (
    "https://raw.githubusercontent.com/NVlabs/instant-ngp/abe236ee00cf90cfca6e36e65c00435d5b21f50a"
)
_FOX = Path(__file__).with_name("fox.json")
_MIRROR = "https://github.com/yxlao/nerfmirror/releases/download/20220618"
_GOOGLE = "https://storage.googleapis.com/gresearch/refraw360"


def _fox() -> tuple[File, ...]:
    return tuple(
        File(f"{_NGP}/data/nerf/fox/{path}", path, f"sha256:{digest}")
        for path, digest in read_json(_FOX).items()
    )


COLLECTIONS = (
    # Address and SHA-256: nerfmirror.py of github.com/yxlao/nerfmirror. nerfbaselines had the same
    # SHA-256 for the authors' file on Google Drive (datasets/blender.py before August 2024).
    # Licenses: the archive's README.txt.
    Collection(
        "nerf-synthetic",
        "objects without surroundings (Mildenhall et al. 2020)",
        ("chair", "drums", "ficus", "hotdog", "lego", "materials", "mic", "ship"),
        "about 1.3 GB",
        "lego CC BY-NC, ship CC BY-SA, drums CC BY; the others CC0",
        "https://www.matthewtancik.com/nerf",
        (
            File(
                f"{_MIRROR}/nerf_synthetic.zip",
                "nerf_synthetic.zip",
                "sha256:f01fd1b4ab045b0d453917346f26f898657bb5bec4834b95fdad1f361826e45e",
            ),
        ),
        "nerf_synthetic",
    ),
    # The sources are the same as above. nerfbaselines had the same SHA-256 in datasets/llff.py
    # before September 2024.
    Collection(
        "llff",
        "forward-facing scenes (Mildenhall et al. 2019)",
        ("fern", "flower", "fortress", "horns", "leaves", "orchids", "room", "trex"),
        "1.8 GB",
        "none stated for the images",
        "https://bmild.github.io/llff",
        (
            File(
                f"{_MIRROR}/nerf_llff_data.zip",
                "nerf_llff_data.zip",
                "sha256:5794b432feaf4f25bcd603addc6ad0270cec588fed6a364b7952001f07466635",
            ),
        ),
        "nerf_llff_data",
    ),
    # Addresses: examples/datasets/download_dataset.py of github.com/nerfstudio-project/gsplat.
    Collection(
        "mipnerf360",
        "360 degree scenes (Barron et al. 2022)",
        ("bicycle", "bonsai", "counter", "garden", "kitchen", "room", "stump"),
        "12.5 GB",
        "none stated",
        "https://jonbarron.info/mipnerf360",
        (File(f"{_GOOGLE}/360_v2.zip", "360_v2.zip", None),),
    ),
    Collection(
        "mipnerf360-extra",
        "two more scenes of the same paper",
        ("flowers", "treehill"),
        "not stated",
        "none stated",
        "https://jonbarron.info/mipnerf360",
        (File(f"{_GOOGLE}/360_extra_scenes.zip", "360_extra_scenes.zip", None),),
    ),
    # The SHA-256 values were computed from the files of the commit in the URL.
    Collection(
        "instant-ngp",
        "a stuffed fox, recorded with a phone (Müller et al. 2022)",
        ("fox",),
        "18 MB",
        "NVIDIA's Source Code License: for research or evaluation only",
        "https://github.com/NVlabs/instant-ngp",
        _fox(),
        None,
    ),
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
