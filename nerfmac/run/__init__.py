"""A run: a scene with a field and its state, and the one loop that trains."""

from nerfmac.run.configured import configured as configured
from nerfmac.run.configured import fitted as fitted
from nerfmac.run.folder import is_run as is_run
from nerfmac.run.folder import read_record as read_record
from nerfmac.run.limits import check_limits as check_limits
from nerfmac.run.log import log_memory as log_memory
from nerfmac.run.memory import check_memory as check_memory
from nerfmac.run.memory import needed_memory as needed_memory
from nerfmac.run.memory import what_to_lower as what_to_lower
from nerfmac.run.path_files import load_path as load_path
from nerfmac.run.placed import placement_of as placement_of
from nerfmac.run.run import CONFIGURED as CONFIGURED
from nerfmac.run.run import Run as Run
from nerfmac.run.scalars import Scalars as Scalars
from nerfmac.run.scalars import check_tensorboard as check_tensorboard
from nerfmac.run.scalars import read_scalars as read_scalars
from nerfmac.run.split_cameras import split_cameras as split_cameras
from nerfmac.run.start import train as train
