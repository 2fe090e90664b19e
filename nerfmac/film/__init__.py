"""Films: what a run's cameras see along a path, as a video or as numbered files."""

from nerfmac.film.film import film as film
from nerfmac.film.film import refuse_existing as refuse_existing
from nerfmac.film.frames import Frames as Frames
from nerfmac.film.series import FORMATS as FORMATS
from nerfmac.film.shot import OUTPUTS as OUTPUTS
from nerfmac.film.shot import PROJECTIONS as PROJECTIONS
from nerfmac.film.shot import STEREO as STEREO
from nerfmac.film.shot import Shot as Shot
from nerfmac.film.takes import Take as Take
from nerfmac.film.takes import blurred as blurred
from nerfmac.film.video import VIDEOS as VIDEOS
from nerfmac.film.video import check_video as check_video
from nerfmac.film.video import even as even
from nerfmac.film.video import write_video as write_video
