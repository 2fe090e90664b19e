"""Exports of a run: meshes, points, density grids, and cameras in the coordinates of the input
scene, and HTML pages.

Examples:
    run = nerfmac.Run.load("runs/mine")
    mesh = nerfmac.app.export.extract_mesh(run, resolution=256)
    mesh.save("mine.glb")
    nerfmac.app.export.write_scene_page(run, "mine.html")
"""

from nerfmac.app.export.cameras import *
from nerfmac.app.export.density import *
from nerfmac.app.export.kinds import *
from nerfmac.app.export.mesh import *
from nerfmac.app.export.pages import *
from nerfmac.app.export.points import *
from nerfmac.app.export.scene_page import *
