"""`KINDS`, the kinds of export: the file extensions of each kind, and the function that writes its
file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from nerfmac.app.export.cameras import extract_cameras
from nerfmac.app.export.common import PAGE_EXTENSIONS, check_extension
from nerfmac.app.export.density import extract_density
from nerfmac.app.export.mesh import extract_mesh
from nerfmac.app.export.points import extract_points
from nerfmac.app.export.scene_page import write_scene_page
from nerfmac.app.export.shape_files import EXTENSIONS
from nerfmac.app.run import Run
from nerfmac.common import InputError, checks, write_json


class Kind(NamedTuple):
    """Kind of export."""

    write: Callable[..., str]
    """Function of a run, a file path, and options that writes the file and returns a one-line
    summary of its content."""
    content: str  # Text for error messages.
    extensions: tuple[str, ...]


def check_kind(kind: str, path: Path) -> None:
    """Raise `InputError` unless `kind` is a kind of export that can be written to `path`."""
    checks.choice("export", kind, KINDS)
    check_extension(path, KINDS[kind].content, *KINDS[kind].extensions)


def kind_for(path: Path) -> str:
    """Return the first kind of export that can be written to `path`."""
    for name, kind in KINDS.items():
        if path.suffix.lower() in kind.extensions:
            return name
    known = "; ".join(f"{name}: {', '.join(kind.extensions)}" for name, kind in KINDS.items())
    raise InputError(f"cannot export to '{path}': the file extension must be one of {known}")


def _mesh(run: Run, path: Path, **options: Any) -> str:
    mesh = extract_mesh(run, **options)
    mesh.save(path)
    return f"{len(mesh.vertices)} vertices, {len(mesh.faces)} triangles"


def _points(run: Run, path: Path, **options: Any) -> str:
    points = extract_points(run, **options)
    points.save(path)
    return f"{len(points.positions)} points"


def _cameras(run: Run, path: Path) -> str:
    cameras = extract_cameras(run)
    write_json(path, cameras)
    splits = [f"{len(names)} {key[:-10]}" for key, names in cameras.items() if "_filenames" in key]
    listed = f" ({', '.join(splits)})" if splits else ""
    return f"{len(cameras['frames'])} cameras{listed}"


def _density(run: Run, path: Path, **options: Any) -> str:
    grid = extract_density(run, **options)
    grid.save(path)
    return " x ".join(str(points) for points in grid.density.shape) + " points"


def _page(run: Run, path: Path, **options: Any) -> str:
    write_scene_page(run, path, **options)
    return f"{path.stat().st_size / 1e6:.1f} MB"


KINDS = {
    "mesh": Kind(_mesh, "a mesh", EXTENSIONS),
    "points": Kind(_points, "points", (".ply",)),
    "cameras": Kind(_cameras, "cameras", (".json",)),
    "density": Kind(_density, "density", (".vdb",)),
    "page": Kind(_page, "a page", PAGE_EXTENSIONS),
}
"""Kinds of export, keyed by name."""
