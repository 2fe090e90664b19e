"""Utilities: array types, checks, atomic files, strict JSON, a timeline, and optional packages."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nerfmac.common.checks import (
    LARGEST as LARGEST,
    InputError as InputError,
    finite as finite,
    log as log,
    prefix_errors as prefix_errors,
)
from nerfmac.common.files import (
    appearing as appearing,
    appearing_if as appearing_if,
    check_free as check_free,
    check_replaceable as check_replaceable,
    counted as counted,
    leads_out as leads_out,
    make_folder as make_folder,
    name_key as name_key,
    read_json as read_json,
    spelled as spelled,
    user_path as user_path,
    visible_names as visible_names,
    walk as walk,
    write_json as write_json,
)
from nerfmac.common.forking import refuse_forked as refuse_forked
from nerfmac.common.installing import (
    install as install,
    needed as needed,
    pip_install as pip_install,
    why_no_mlx as why_no_mlx,
)
from nerfmac.common.json_reader import (
    Fields as Fields,
    as_json as as_json,
    read_as as read_as,
    read_fields as read_fields,
)
from nerfmac.common.lock import LOCK as LOCK, locked as locked
from nerfmac.common.progress import delayed_progress as delayed_progress, duration as duration
from nerfmac.common.timeline import (
    Entry as Entry,
    Timeline as Timeline,
    interval as interval,
    recording as recording,
)

if TYPE_CHECKING:
    from nerfmac.common.arrays import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """Import the types of arrays, and NumPy, at first use. Help pages appear without NumPy."""
    return getattr(import_module("nerfmac.common.arrays"), name)
