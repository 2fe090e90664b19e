"""Exports of a run: meshes, points, density grids, and cameras in the coordinates of the input
scene, and HTML pages.

Examples:
    run = nerfmac.Run.load("runs/mine")
    mesh = nerfmac.app.export.extract_mesh(run, resolution=256)
    mesh.save("mine.glb")
    nerfmac.app.export.write_scene_page(run, "mine.html")
"""

from nerfmac.app.export.cameras import extract_cameras as extract_cameras
from nerfmac.app.export.density import (
    DensityGrid as DensityGrid,
    extract_density as extract_density,
)
from nerfmac.app.export.kinds import KINDS as KINDS, check_kind as check_kind, kind_for as kind_for
from nerfmac.app.export.mesh import Mesh as Mesh, extract_mesh as extract_mesh
from nerfmac.app.export.page_modules import joined_modules as joined_modules
from nerfmac.app.export.pages import evaluate_to_page as evaluate_to_page
from nerfmac.app.export.points import Points as Points, extract_points as extract_points
from nerfmac.app.export.preview import still_image as still_image, with_preview as with_preview
from nerfmac.app.export.scene_page import PagePath as PagePath, write_scene_page as write_scene_page
