"""Arguments of `nerfmac export`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from nerfmac.app.cli.choices import Device
from nerfmac.app.cli.declared import POSITIONAL, Shown


@dataclass(frozen=True)
class Arguments:
    """Export a mesh, points, cameras, or density in the coordinates of the input scene, or an
    interactive HTML page of the scene."""

    run: Annotated[Path, POSITIONAL, Shown("RUN")]
    """Run folder, or a snapshot of instant-ngp (.ingp, .msgpack)."""
    file: Annotated[Path, POSITIONAL, Shown("FILE")]
    """File to write: a mesh (.ply, .obj, .glb), points (.ply with --as points), cameras (.json),
    density (.npz, .vdb), or a page (.html)."""
    as_: Annotated[
        Literal["mesh", "points", "cameras", "density", "page"] | None,
        Shown("mesh|points|cameras|density|page"),
    ] = None
    """Kind of export. [default: determined by the file extension]"""
    resolution: Annotated[int | None, Shown("INT")] = None
    """Number of cells along the longest side of the box, for a mesh or density. Larger values show
    finer detail; memory and time grow with the cube of this number. [default: 256]"""
    threshold: Annotated[float | None, Shown("FLOAT")] = None
    """Density at the mesh surface per scene unit. Lower it to close holes, raise it to remove haze.
    By default, nerfmac selects the density that matches the rendered depth of the training cameras
    (scenes with surroundings) or a transmittance of 1/2 along their rays (objects)."""
    smallest: Annotated[float | None, Shown("FLOAT")] = None
    """Remove pieces of a mesh that have less than this fraction of the largest piece's area. Raise
    it to remove floaters. [default: 0.01]"""
    count: Annotated[int | None, Shown("INT")] = None
    """Number of points. [default: 500000]"""
    crop: Annotated[str | None, Shown("X,Y,Z,X,Y,Z")] = None
    """Box to export, as its lowest and highest corner in the coordinates of the input scene.
    [default: the occupied cells of the unit cube; no box for points]"""
    path: Annotated[str | None, Shown("NAME|FILE.json")] = None
    """Camera path that the page plays when it opens: orbit, spiral, figure-of-eight, train, test,
    or a path file, as in nerfmac render. [default: none]"""
    background: Annotated[str | None, Shown("white|black|R,G,B")] = None
    """Background color of the page, with R, G, and B from 0 to 255. [default: white]"""
    title: Annotated[str | None, Shown("TEXT")] = None
    """Title of the page. [default: the scene's name]"""
    device: Device = "auto"
    """Device to use. auto uses the GPU if available. [default: auto]"""
