"""What others can use of a run: a mesh, points, cameras and density, in the input's coordinates.

run = nerfmac.Run.load("runs/mine")
mesh = nerfmac.export.extract_mesh(run, resolution=256)
mesh.save("mine.glb")
"""

from nerfmac.export.cameras import extract_cameras
from nerfmac.export.density import DensityGrid, extract_density
from nerfmac.export.libraries import need_libraries
from nerfmac.export.mesh import Mesh, extract_mesh
from nerfmac.export.points import Points, extract_points
from nerfmac.export.quality_page import evaluate_to_page, worst
from nerfmac.export.report_page import write_report

__all__ = [
    "DensityGrid",
    "Mesh",
    "Points",
    "evaluate_to_page",
    "extract_cameras",
    "extract_density",
    "extract_mesh",
    "extract_points",
    "need_libraries",
    "worst",
    "write_report",
]
