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
    """Kind of data to export. [default: determined by the extension of FILE]"""
    resolution: Annotated[int | None, Shown("INT")] = None
    """Number of cells along the longest side of the exported box, for a mesh or density. Larger
    values result in finer detail. Memory and time grow with the cube of the resolution. [default:
    256]"""
    threshold: Annotated[float | None, Shown("FLOAT")] = None
    """Density at the mesh surface, in 1 / scene unit. Lower the threshold to close holes, or raise
    it to remove haze. By default, nerfmac selects the threshold that best matches the surfaces
    along training rays. If the scene has a background, nerfmac by default fuses depth images of the
    training cameras instead of using a threshold."""
    smallest: Annotated[float | None, Shown("FLOAT")] = None
    """Minimum area of a connected component, as a fraction of the largest component's area. Smaller
    components are removed from the mesh. Raise this value to remove floaters. [default: 0.01]"""
    count: Annotated[int | None, Shown("INT")] = None
    """Number of points in an exported point cloud. [default: 500000]"""
    crop: Annotated[str | None, Shown("X,Y,Z,X,Y,Z")] = None
    """Box to export, specified by its lowest and highest corners in the coordinates of the input
    scene. [default: the box around the occupied cells of the unit cube; the whole scene for
    points]"""
    path: Annotated[str | None, Shown("NAME|FILE.json")] = None
    """Camera path that the exported page plays when it opens: orbit, spiral, figure-of-eight,
    train, test, or a camera path file, as in nerfmac render. [default: none]"""
    background: Annotated[str | None, Shown("white|black|R,G,B")] = None
    """Background color of the exported page, with R, G, and B from 0 to 255. [default: white]"""
    title: Annotated[str | None, Shown("TEXT")] = None
    """Title of the exported page. [default: the name of the scene]"""
    device: Device = "auto"
    """Device to use. auto uses the GPU if available. [default: auto]"""
