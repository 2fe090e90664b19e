"""Geometry: cameras, lenses, rays, samples, grid cells, and colors. Each module defines its
conventions."""

from nerfmac.geometry.bounds import *
from nerfmac.geometry.cameras import *
from nerfmac.geometry.cells import *
from nerfmac.geometry.color import *
from nerfmac.geometry.depth_maps import *
from nerfmac.geometry.ground_planes import *
from nerfmac.geometry.lenses import *
from nerfmac.geometry.near_planes import *
from nerfmac.geometry.placement import *
from nerfmac.geometry.rays import *
from nerfmac.geometry.samples import *
from nerfmac.geometry.tracks import *
from nerfmac.geometry.viewpoints import *
from nerfmac.geometry.views import *
