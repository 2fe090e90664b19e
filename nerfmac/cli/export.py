"""`nerfmac export`: a saved run as a mesh, points, cameras, density or a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from nerfmac.backend import choose_device
from nerfmac.cli.arguments import box, optional
from nerfmac.cli.choices import Device
from nerfmac.common.checks import InputError
from nerfmac.common.files import appearing, remove_abandoned, write_json
from nerfmac.export import (
    extract_cameras,
    extract_density,
    extract_mesh,
    extract_points,
    need_libraries,
)
from nerfmac.run import CONFIGURED, Run
from nerfmac.snapshots import open_run, save_snapshot
from nerfmac.training.method import Method

ENDINGS = {
    "mesh": (".ply", ".obj", ".glb"),
    "points": (".ply",),
    "cameras": (".json",),
    "density": (".npz", ".vdb"),
    "snapshot": (".ingp", ".msgpack"),
}
"""File endings of each kind of export; an ending means the first kind that has it."""
OPTIONS = {
    "mesh": {"resolution", "threshold", "smallest", "crop"},
    "points": {"count", "crop"},
    "cameras": set(),
    "density": {"resolution", "crop"},
    "snapshot": set(),
}
"""Options of each kind of export."""


@dataclass(frozen=True)
class Arguments:
    """Write a run's mesh, points, cameras or density, in the coordinates of its scene's files, or
    the run as a snapshot for instant-ngp."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run, or a snapshot of instant-ngp (.ingp, .msgpack)."""
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """A mesh (.ply, .obj, .glb), points (.ply, with --as points), cameras (.json), density (.npz,
    .vdb) or a snapshot (.ingp, .msgpack)."""
    as_: Annotated[
        Literal["mesh", "points", "cameras", "density", "snapshot"] | None,
        tyro.conf.arg(
            name="as", metavar="mesh|points|cameras|density|snapshot", help_behavior_hint=""
        ),
    ] = None
    """Kind of export; by default the file's ending says it."""
    resolution: Annotated[int | None, optional("INT")] = None
    """Cells along the longest side of the box, for a mesh or density; by default 256."""
    threshold: Annotated[float | None, optional("FLOAT")] = None
    """Density on a mesh's surface, per scene unit. Lower values close holes and join pieces, but
    add fog. By default the surface lies where the training cameras' light ends."""
    smallest: Annotated[float | None, optional("FLOAT")] = None
    """Leave out pieces of a mesh with less than this fraction of the largest piece's area; by
    default 0.01."""
    count: Annotated[int | None, optional("INT")] = None
    """Number of points; by default 500000."""
    crop: Annotated[str | None, optional("X,Y,Z,X,Y,Z")] = None
    """Lowest and highest corner of the box, in the coordinates of the scene's files. By default the
    bounds of the occupied cells in the unit cube; for points no box."""
    device: Device = "auto"
    """Device that computes; auto takes the GPU if there is one."""


def main(argv: list[str], method: Method = CONFIGURED) -> int:
    """Export as `argv` says; return the exit code."""
    arguments = tyro.cli(Arguments, prog="nerfmac export", args=argv)
    kind = _kind(arguments.file, arguments.as_)
    options = _options(arguments, kind)
    if kind in ("mesh", "points"):
        need_libraries()
    choose_device(arguments.device)
    run = open_run(arguments.run, method=method)
    remove_abandoned(arguments.file.parent, arguments.file.name)
    with appearing(arguments.file) as partial:
        summary = WRITERS[kind](run, partial, options)
    print(f"{arguments.file}: {summary}")
    return 0


def _kind(file: Path, asked: str | None) -> str:
    ending = file.suffix.lower()
    fitting = [kind for kind, endings in ENDINGS.items() if ending in endings]
    if asked is None and fitting:
        return fitting[0]
    if asked is None:
        known = ", ".join(sorted({ending for endings in ENDINGS.values() for ending in endings}))
        raise InputError(f"{file} does not say what to export; expected an ending among {known}")
    if asked not in fitting:
        raise InputError(
            f"{file} cannot hold {asked}; expected an ending of {' or '.join(ENDINGS[asked])}"
        )
    return asked


def _options(arguments: Arguments, kind: str) -> dict[str, Any]:
    """The given options by name. Raises `InputError` for one that the kind does not have."""
    names = sorted(set().union(*OPTIONS.values()))
    values = {name: getattr(arguments, name) for name in names}
    options = {name: value for name, value in values.items() if value is not None}
    for name in options:
        if name not in OPTIONS[kind]:
            known = ", ".join(f"--{option}" for option in sorted(OPTIONS[kind])) or "no such flags"
            raise InputError(f"--{name} is not an option of {kind}, which takes {known}")
    if "crop" in options:
        options["crop"] = box("--crop", options["crop"])
    return options


def _mesh(run: Run, path: Path, options: dict[str, Any]) -> str:
    mesh = extract_mesh(run, **options)
    mesh.save(path)
    return f"{len(mesh.vertices)} vertices, {len(mesh.faces)} triangles"


def _points(run: Run, path: Path, options: dict[str, Any]) -> str:
    points = extract_points(run, **options)
    points.save(path)
    return f"{len(points.positions)} points"


def _cameras(run: Run, path: Path, options: dict[str, Any]) -> str:
    cameras = extract_cameras(run)
    write_json(path, cameras)
    return f"{len(cameras['frames'])} cameras"


def _density(run: Run, path: Path, options: dict[str, Any]) -> str:
    grid = extract_density(run, **options)
    grid.save(path)
    return " x ".join(str(points) for points in grid.density.shape) + " points"


def _snapshot(run: Run, path: Path, options: dict[str, Any]) -> str:
    save_snapshot(run, path)
    return f"{run.state.step} steps, {len(run.scene.cameras)} cameras"


WRITERS: dict[str, Callable[[Run, Path, dict[str, Any]], str]] = {
    "mesh": _mesh,
    "points": _points,
    "cameras": _cameras,
    "density": _density,
    "snapshot": _snapshot,
}
