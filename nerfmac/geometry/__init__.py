"""Geometry: cameras, lenses, rays, samples, grid cells, and colors. Each module defines its
conventions."""

from nerfmac.geometry.bounds import Bounds as Bounds, Sphere as Sphere, from_center as from_center
from nerfmac.geometry.cameras import (
    Camera as Camera,
    Cameras as Cameras,
    angle_between as angle_between,
    nearest_to_axes as nearest_to_axes,
    shown_sizes as shown_sizes,
)
from nerfmac.geometry.cells import (
    Cells as Cells,
    cells_of as cells_of,
    corners_of as corners_of,
    number_of as number_of,
)
from nerfmac.geometry.color import (
    blended as blended,
    exposed as exposed,
    linear_to_srgb as linear_to_srgb,
    over as over,
    srgb_to_linear as srgb_to_linear,
)
from nerfmac.geometry.depth_maps import (
    SURE as SURE,
    DepthMaps as DepthMaps,
    Map as Map,
    along_rays as along_rays,
    axial_directions as axial_directions,
    trusted as trusted,
)
from nerfmac.geometry.ground_plane import (
    GroundPlane as GroundPlane,
    nearest_distance as nearest_distance,
    scene_ground_plane as scene_ground_plane,
)
from nerfmac.geometry.lenses import (
    NEWTON_STEPS as NEWTON_STEPS,
    Lens as Lens,
    distort as distort,
    distort_with_slopes as distort_with_slopes,
    focal_length as focal_length,
)
from nerfmac.geometry.near_plane import (
    closest_plane as closest_plane,
    in_image as in_image,
    near_plane_at as near_plane_at,
)
from nerfmac.geometry.placement import Direction as Direction, Placement as Placement
from nerfmac.geometry.rays import (
    NEW_VIEW as NEW_VIEW,
    Rays as Rays,
    camera_rays as camera_rays,
    panorama_rays as panorama_rays,
    pixel_radius as pixel_radius,
    rays_through as rays_through,
)
from nerfmac.geometry.samples import Samples as Samples, Thinning as Thinning
from nerfmac.geometry.tracks import (
    Tracks as Tracks,
    distances_of as distances_of,
)
from nerfmac.geometry.viewpoints import Viewpoints as Viewpoints
from nerfmac.geometry.views import Color as Color, Views as Views
