"""A run: a scene with a field and its training state, and the one training loop."""

from nerfmac.run.configuration import CONFIGURED as CONFIGURED
from nerfmac.run.configuration import check_limits as check_limits
from nerfmac.run.configuration import check_memory as check_memory
from nerfmac.run.configuration import config_for_device as config_for_device
from nerfmac.run.configuration import config_for_scene as config_for_scene
from nerfmac.run.configuration import needed_memory as needed_memory
from nerfmac.run.coordinates import file_cameras as file_cameras
from nerfmac.run.coordinates import load_path as load_path
from nerfmac.run.coordinates import placement_of as placement_of
from nerfmac.run.coordinates import split_cameras as split_cameras
from nerfmac.run.folder import check_unused as check_unused
from nerfmac.run.folder import is_run as is_run
from nerfmac.run.folder import read_record as read_record
from nerfmac.run.outputs import protocol as protocol
from nerfmac.run.outputs import quality as quality
from nerfmac.run.outputs import scaled_size as scaled_size
from nerfmac.run.run import Run as Run
from nerfmac.run.scalars import Scalars as Scalars
from nerfmac.run.scalars import read_history as read_history
from nerfmac.run.scalars import read_scalars as read_scalars
from nerfmac.run.start import train as train
