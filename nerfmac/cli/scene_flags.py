"""`SceneFlags`: the flags of verbs that read a scene, one for each of its options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from nerfmac.cli.arguments import optional
from nerfmac.common.checks import InputError
from nerfmac.scenes.options import SceneOptions, split_of, up_of
from nerfmac.scenes.record import SceneRecord


@dataclass(frozen=True)
class SceneFlags:
    """How a scene is read; None for what is not said."""

    split: Annotated[str | None, optional("N|FRACTION|none|FILE")] = None
    """Which training views are held out as the test split: every Nth, a fraction such as 0.1, none,
    or those that FILE names, one a line. By default as the scene says, else every 8th."""
    extent: Annotated[float | None, optional("SIDE")] = None
    """Side of the cube that is trained, in scene units, in place of the scene's or the estimate."""
    up: Annotated[str | None, optional("AXIS|X,Y,Z")] = None
    """The direction to the sky in the coordinates of the scene's files: x, -y and so on, three
    numbers, or auto: as the scene says, else estimated."""
    downscale: Annotated[int | None, optional("N")] = None
    """Make pictures N times smaller along both sides; by default they stay as they are."""
    max_images: Annotated[int | None, optional("N")] = None
    """Take at most N views of each split, spread evenly over it; by default all."""
    masks: bool = True
    """Leave out what pictures' masks cover, in training and evaluation."""

    def options(self) -> SceneOptions:
        """The options that the flags make; raises InputError for values that cannot be."""
        downscale = 1 if self.downscale is None else self.downscale
        how = downscale, self.max_images, self.masks
        return SceneOptions(split_of(self.split), self.extent, up_of(self.up), *how)

    def given(self) -> dict[str, Any]:
        """The options whose flags are given; raises InputError for values that cannot be."""
        options = vars(self.options())
        is_given = {each: getattr(self, each) is not None for each in options}
        is_given["masks"] = not self.masks
        return {name: value for name, value in options.items() if is_given[name]}

    def refuse(self, expected: str) -> None:
        """Raise InputError that says what is `expected` if a flag is given where none counts."""
        for option in self.given():
            flag = "no-masks" if option == "masks" else option.replace("_", "-")
            raise InputError(f"--{flag} says how a scene is read; expected {expected}")

    def check_as_in(self, record: SceneRecord, run: Path) -> None:
        """Raise InputError if a flag that is given is not as the `run` has it."""
        asked, known = self.given(), vars(record.options) | {"extent": record.extent}
        for option in asked:
            if asked[option] != known[option]:
                raise InputError(
                    f"{option} is {asked[option]}, and {known[option]} in the run {run}: leave it "
                    "out to go on with that, or begin another run"
                )
