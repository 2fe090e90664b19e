"""Meshes and points as PLY, OBJ and GLB files, written by trimesh.

PLY and OBJ store positions unchanged and colours in sRGB. GLB is the binary form of glTF 2.0, in
which y is up and colours are linear: its root turns z to y, and programs in which z is up, such as
Blender, turn that back. Its material is unlit, because a field's colours contain the light.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.common import extras
from nerfmac.geometry.colour import srgb_to_linear

ENDINGS = (".ply", ".obj", ".glb")
Z_TO_Y = ((1, 0, 0, 0), (0, 0, 1, 0), (0, -1, 0, 0), (0, 0, 0, 1))
UNLIT = {
    "pbrMetallicRoughness": {"metallicFactor": 0.0, "roughnessFactor": 1.0},
    "extensions": {"KHR_materials_unlit": {}},
}


def need_libraries() -> None:
    """Raise `InputError` if a library of the extra `export` is not installed."""
    for module in ("skimage.measure", "trimesh"):
        needed(module)


def needed(module: str) -> Any:
    """Import a `module` of the extra `export`. Raises `InputError` with how to install it."""
    return extras.needed(module, "export", "meshes and points need")


def write_shape(
    path: Path,
    vertices: npt.NDArray[np.float64],
    normals: npt.NDArray[np.float32],
    colours: npt.NDArray[np.uint8],
    *,
    faces: npt.NDArray[np.int32],
) -> None:
    """Write vertices with unit normals and sRGB colours, all (v, 3), and faces (f, 3), to `path`.

    The path's ending, one of `ENDINGS`, names the format. Raises `InputError` without trimesh.
    """
    trimesh = needed("trimesh")
    shape = trimesh.Trimesh(
        vertices, faces, vertex_normals=normals, vertex_colors=colours, process=False
    )
    if path.suffix.lower() == ".glb":
        content = _glb(trimesh, shape, colours)
    elif path.suffix.lower() == ".obj":
        exporter = needed("trimesh.exchange.obj")
        content = exporter.export_obj(shape, include_normals=True, header=None).encode()
    else:
        content = needed("trimesh.exchange.ply").export_ply(shape, vertex_normal=True)
    path.write_bytes(content)


def _glb(trimesh: Any, shape: Any, colours: npt.NDArray[np.uint8]) -> bytes:
    # trimesh stores colours in bytes, too coarse for linear light, but a user's attributes in
    # float32: colours are written as such an attribute, which is then renamed to glTF's colours.
    shape.visual = trimesh.visual.ColorVisuals()
    linear = srgb_to_linear(mx.array(colours).astype(mx.float32) / 255.0)
    shape.vertex_attributes["_LINEAR"] = np.array(linear)
    scene = trimesh.Scene()
    scene.add_geometry(shape, transform=np.array(Z_TO_Y, np.float64))

    def finish(tree: dict[str, Any]) -> None:
        tree["materials"], tree["extensionsUsed"] = [UNLIT], ["KHR_materials_unlit"]
        (primitive,) = tree["meshes"][0]["primitives"]
        primitive["material"] = 0
        primitive["attributes"]["COLOR_0"] = primitive["attributes"].pop("_LINEAR")

    exporter = needed("trimesh.exchange.gltf")
    content: bytes = exporter.export_glb(scene, include_normals=True, tree_postprocessor=finish)
    return content
