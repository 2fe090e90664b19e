"""Options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from nerfmac.app.cli.declared import Shown
from nerfmac.common.checks import InputError

if TYPE_CHECKING:
    from nerfmac.app.scenes.options import SceneOptions

Device = Literal["auto", "metal", "cuda", "cpu"]
Preset = Literal["auto", "tiny", "small", "base", "big"]


@dataclass(frozen=True)
class SceneFlags:
    """Options that control how a scene is loaded, one for each option of `load_scene`."""

    split: Annotated[str | None, Shown("N|FRACTION|none|FILE")] = None
    """Views to hold out for testing: every Nth training view, a fraction such as 0.1, none, or the
    views listed in FILE, one per line. [default: the test split of the scene, otherwise every 8th
    view, or none if the scene has fewer than 8 views]"""
    extent: Annotated[float | None, Shown("SIDE")] = None
    """Side length of the scene cube in scene units. [default: the value in the scene file,
    otherwise an estimate]"""
    up: Annotated[str | None, Shown("AXIS|X,Y,Z")] = None
    """Up direction in the coordinates of the input scene: an axis such as z or -y, or three
    numbers. [default: auto, the value in the scene file, otherwise an estimate]"""
    downscale: Annotated[int | None, Shown("N")] = None
    """Divide the width and height of the images by N. [default: 1]"""
    max_images: Annotated[int | None, Shown("N")] = None
    """Use at most N evenly spaced views of each split. [default: all views]"""
    masks: bool = True
    """Exclude masked pixels from training and evaluation. With --no-masks, nerfmac ignores all
    masks."""

    def options(self) -> SceneOptions:
        """Return all scene options, with default values for absent options."""
        from nerfmac.app.scenes.options import SceneOptions  # uses MLX

        values = {field.name: getattr(self, field.name) for field in fields(SceneFlags)}
        return SceneOptions.of(**{name: v for name, v in values.items() if v is not None})

    def given(self) -> dict[str, Any]:
        """Return the options that are given on the command line, keyed by name."""
        options, defaults = vars(self.options()), vars(SceneFlags())
        return {key: options[key] for key in options if getattr(self, key) != defaults[key]}

    def refuse(self, reason: str) -> None:
        """Raise `InputError` with a `reason` if any of these options is given."""
        for option in self.given():
            flag = "no-masks" if option == "masks" else option.replace("_", "-")
            raise InputError(f"--{flag} cannot be used: {reason}; remove --{flag}")
