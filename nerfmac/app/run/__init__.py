"""Runs. A run consists of a scene, a field, and a training state. Runs can be trained and saved."""

from nerfmac.app.run.configuration import *
from nerfmac.app.run.coordinates import *
from nerfmac.app.run.folder import *
from nerfmac.app.run.headline import *
from nerfmac.app.run.outputs import *
from nerfmac.app.run.reporting import *
from nerfmac.app.run.run import *
from nerfmac.app.run.start import *
from nerfmac.app.run.training import *
