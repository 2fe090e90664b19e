"""The small scene that comes with the package, for a first run without any photographs."""

from __future__ import annotations

from pathlib import Path

from nerfmac.common.checks import InputError

NAME = "still_life"


def builtin_scene_path() -> Path:
    """The folder of the built-in scene, in Blender's format; raises InputError if it is absent."""
    package = Path(__file__).resolve().parents[1]
    # A wheel carries `data` inside the package; an editable install finds it beside the package.
    places = [package / "data" / NAME, package.parent / "data" / NAME]
    for place in places:
        if place.is_dir():
            return place
    looked = " and ".join(str(place) for place in places)
    raise InputError(f"the built-in scene is missing: looked for {looked}")
