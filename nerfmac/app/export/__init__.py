"""Exports of a run: meshes, points, density grids, and cameras in the coordinates of the input
scene, and HTML pages.

Examples:
    run = nerfmac.Run.load("runs/mine")
    mesh = nerfmac.app.export.extract_mesh(run, resolution=256)
    mesh.save("mine.glb")
    nerfmac.app.export.write_scene_page(run, "mine.html")
"""

from nerfmac.app.export.cameras import extract_cameras
from nerfmac.app.export.density import DensityGrid, extract_density
from nerfmac.app.export.mesh import Mesh, extract_mesh
from nerfmac.app.export.pages import evaluate_to_page, worst
from nerfmac.app.export.points import Points, extract_points
from nerfmac.app.export.report_page import write_report
from nerfmac.app.export.scene_page import PagePath, write_scene_page
from nerfmac.app.export.shape_files import need_libraries

__all__ = [
    "DensityGrid",
    "Mesh",
    "PagePath",
    "Points",
    "evaluate_to_page",
    "extract_cameras",
    "extract_density",
    "extract_mesh",
    "extract_points",
    "need_libraries",
    "worst",
    "write_report",
    "write_scene_page",
]
