"""A run: a scene with a field and its state, and the one loop that trains."""

from nerfmac.run.configured import configured as configured
from nerfmac.run.folder import is_run as is_run
from nerfmac.run.folder import read_record as read_record
from nerfmac.run.limits import check_limits as check_limits
from nerfmac.run.run import CONFIGURED as CONFIGURED
from nerfmac.run.run import Run as Run
from nerfmac.run.start import train as train
