"""Writing of meshes and points to PLY, OBJ, and GLB files. OBJ and GLB are written with trimesh.

PLY and OBJ files contain unchanged positions and sRGB colors. If coordinates are large compared
with the size of the shape, as in UTM coordinates, the positions in a PLY file have double
precision. GLB supports only single precision, so an offset is subtracted from large coordinates and
stored as `offset` in the extras of the file and of the node.

GLB is the binary form of glTF 2.0. In glTF, y is up and colors are linear. The root node of the
file rotates the up direction of the scene to the y axis. Programs with z as the up axis, such as
Blender, rotate the y axis to the z axis. The material is unlit, because the colors of a field
include the illumination.
"""

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from nerfmac.app.scenes.placement import UP, leveling
from nerfmac.app.scenes.ply_points import COLORS, ply_bytes
from nerfmac.common import Float32Array, Float64Array, Int32Array, UInt8Array, installing, log
from nerfmac.geometry import Direction, srgb_to_linear

EXTENSIONS = (".ply", ".obj", ".glb")
FAR = 100.0
"""Maximum ratio of the largest coordinate to the longest side of a shape for single precision.
Rounding steps are then about 1e-5 times the longest side."""
Z_TO_Y = ((1, 0, 0), (0, 0, 1), (0, -1, 0))
UNLIT = {
    "pbrMetallicRoughness": {"metallicFactor": 0.0, "roughnessFactor": 1.0},
    "extensions": {"KHR_materials_unlit": {}},
}


def need_libraries() -> None:
    """Raise `InputError` if a library is missing that the `export` extra installs."""
    for module in ("skimage.measure", "trimesh"):
        needed(module)


def needed(module: str) -> Any:
    """Import and return a module that the `export` extra installs. If the module is missing, raise
    `InputError` with the installation command."""
    return installing.needed(module, "export", "meshes need")


def write_shape(
    path: Path,
    vertices: Float64Array,
    normals: Float32Array,
    colors: UInt8Array,
    *,
    faces: Int32Array,
    up: Direction = UP,
    name: str = "mesh",
) -> None:
    """Write positions (v, 3), unit normals (v, 3), and sRGB colors (v, 3), with triangles of vertex
    indices (f, 3), or points if f is 0. The file extension determines the format. A GLB file also
    contains the up direction, in the coordinates of the positions, and the name of the mesh."""
    if path.suffix.lower() == ".ply":
        precise = vertices.T.astype("<f8" if _is_far(vertices) else "<f4")
        columns = [*zip("xyz", precise, strict=True)]
        columns += zip(("nx", "ny", "nz"), normals.T.astype("<f4"), strict=True)
        columns += zip(COLORS, colors.T, strict=True)
        path.write_bytes(ply_bytes(columns, faces))
        return
    trimesh, is_glb = needed("trimesh"), path.suffix.lower() == ".glb"
    offset = np.zeros(3)
    if is_glb and _is_far(vertices):
        offset = np.round(vertices.mean(axis=0))
        shown = ", ".join(f"{value:.0f}" for value in offset)
        log.warning(
            f"GLB only has single precision, which is insufficient for these coordinates; "
            f"({shown}) is subtracted and stored as `offset` in the extras of the file. PLY and "
            "OBJ need no offset"
        )
    shape = trimesh.Trimesh(
        vertices - offset, faces, vertex_normals=normals, vertex_colors=colors, process=False
    )
    if is_glb:
        shape.metadata["name"] = name
        turn = np.eye(4)
        turn[:3, :3] = Z_TO_Y @ leveling([], up)
        content = _glb(trimesh, shape, colors, offset, turn)
    else:
        exporter = needed("trimesh.exchange.obj")
        content = exporter.export_obj(shape, include_normals=True, header=None).encode()
    path.write_bytes(content)


def _is_far(vertices: Float64Array) -> bool:
    """Return whether float32 is insufficient for the distance of the vertices from the origin."""
    side = float(np.ptp(vertices, axis=0).max(initial=0.0)) if len(vertices) else 0.0
    return bool(np.abs(vertices).max(initial=0.0) > FAR * max(side, 1e-12))


def _glb(
    trimesh: Any, shape: Any, colors: UInt8Array, offset: Float64Array, turn: Float64Array
) -> bytes:
    # trimesh stores colors in bytes, but linear colors need a higher precision. Custom attributes
    # are stored in float32, so the colors are written as a custom attribute and then renamed.
    shape.visual = trimesh.visual.ColorVisuals()
    linear = srgb_to_linear(mx.array(colors).astype(mx.float32) / 255.0)
    shape.vertex_attributes["_LINEAR"] = np.array(linear)
    scene = trimesh.Scene()
    name = shape.metadata["name"]
    scene.add_geometry(shape, node_name=name, geom_name=name, transform=turn)

    def finish(tree: dict[str, Any]) -> None:
        tree["materials"], tree["extensionsUsed"] = [UNLIT], ["KHR_materials_unlit"]
        (primitive,) = tree["meshes"][0]["primitives"]
        primitive["material"] = 0
        primitive["attributes"]["COLOR_0"] = primitive["attributes"].pop("_LINEAR")
        if offset.any():
            for part in (tree["asset"], *(node for node in tree["nodes"] if "mesh" in node)):
                part["extras"] = {"offset": offset.tolist()}

    exporter = needed("trimesh.exchange.gltf")
    content: bytes = exporter.export_glb(scene, include_normals=True, tree_postprocessor=finish)
    return content
