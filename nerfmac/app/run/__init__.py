"""Runs. A run consists of a scene, a field, and a training state. Runs can be trained and saved."""

from nerfmac.app.run.configuration import CONFIGURED as CONFIGURED, config_of as config_of
from nerfmac.app.run.coordinates import load_path as load_path, split_cameras as split_cameras
from nerfmac.app.run.folder import check_unused as check_unused, is_run as is_run
from nerfmac.app.run.headline import HeldOut as HeldOut
from nerfmac.app.run.outputs import Outputs as Outputs, surface_quality as surface_quality
from nerfmac.app.run.reporting import read_history as read_history, read_scalars as read_scalars
from nerfmac.app.run.run import Run as Run
from nerfmac.app.run.start import resume as resume, train as train
from nerfmac.app.run.training import Training as Training
