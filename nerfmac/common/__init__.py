"""Utilities: array types, checks, constants, atomic files, strict JSON, a timeline, and optional
packages."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nerfmac.common.checks import *
from nerfmac.common.constants import *
from nerfmac.common.files import *
from nerfmac.common.forking import *
from nerfmac.common.installing import *
from nerfmac.common.json_reader import *
from nerfmac.common.lock import *
from nerfmac.common.progress import *
from nerfmac.common.timeline import *

if TYPE_CHECKING:
    from nerfmac.common.arrays import *


def __getattr__(name: str) -> Any:
    """Import the types of arrays, and NumPy, at first use. Help pages appear without NumPy."""
    return getattr(import_module("nerfmac.common.arrays"), name)
