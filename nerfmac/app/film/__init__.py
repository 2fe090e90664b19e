"""Films: a run rendered along a camera path, as a video or as numbered files."""

from nerfmac.app.film.camera_samples import CameraSamples as CameraSamples
from nerfmac.app.film.camera_samples import blurred as blurred
from nerfmac.app.film.filming import film as film
from nerfmac.app.film.filming import refuse_existing as refuse_existing
from nerfmac.app.film.frames import FrameRenderer as FrameRenderer
from nerfmac.app.film.options import DIAGNOSTICS as DIAGNOSTICS
from nerfmac.app.film.options import OUTPUTS as OUTPUTS
from nerfmac.app.film.options import RenderOptions as RenderOptions
from nerfmac.app.film.video import VIDEOS as VIDEOS
from nerfmac.app.film.video import check_video as check_video
from nerfmac.app.film.video import even as even
from nerfmac.app.film.video import write_video as write_video
from nerfmac.app.film.view_renderer import ViewRenderer as ViewRenderer
from nerfmac.app.film.view_renderer import colors as colors
from nerfmac.app.film.view_renderer import over_background as over_background
from nerfmac.app.film.view_renderer import to_bytes as to_bytes
