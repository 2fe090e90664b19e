"""`SceneFlags`: flags of the commands that read a scene, one for each option of `load_scene`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from nerfmac.app.cli.declared import Shown
from nerfmac.app.scenes.options import SceneOptions, split_of, up_of
from nerfmac.common.checks import InputError


@dataclass(frozen=True)
class SceneFlags:
    """Flags that say how a scene is read; None: not given."""

    split: Annotated[str | None, Shown("N|FRACTION|none|FILE")] = None
    """Training views to hold out for tests: every Nth, a fraction such as 0.1, none, or those that
    FILE names, one a line. By default the scene's own test split, else every 8th view."""
    extent: Annotated[float | None, Shown("SIDE")] = None
    """Side of the trained cube in scene units; by default the scene's own, else estimated."""
    up: Annotated[str | None, Shown("AXIS|X,Y,Z")] = None
    """Up direction in the coordinates of the scene's files: an axis such as z or -y, or three
    numbers. By default (auto) the scene's own, else estimated."""
    downscale: Annotated[int | None, Shown("N")] = None
    """Divide the width and height of the images by N."""
    max_images: Annotated[int | None, Shown("N")] = None
    """Take at most N views of each split, evenly spread."""
    masks: bool = True
    """Leave masked pixels out of training and evaluation."""

    def options(self) -> SceneOptions:
        """The scene options, with defaults for absent flags. Raises `InputError`."""
        return SceneOptions(
            split=split_of(self.split),
            extent=self.extent,
            up=up_of(self.up),
            downscale=1 if self.downscale is None else self.downscale,
            max_images=self.max_images,
            masks=self.masks,
        )

    def given(self) -> dict[str, Any]:
        """The options whose flags are given, by name. Raises `InputError`."""
        options = vars(self.options())
        defaults = SceneFlags()
        return {
            name: value
            for name, value in options.items()
            if getattr(self, name) != getattr(defaults, name)
        }

    def refuse(self, expected: str) -> None:
        """Raise `InputError`, with what is `expected`, if any of these flags is given."""
        for option in self.given():
            flag = "no-masks" if option == "masks" else option.replace("_", "-")
            raise InputError(f"--{flag} says how a scene is read; expected {expected}")
