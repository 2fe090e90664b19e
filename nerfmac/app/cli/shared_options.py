"""Options that several commands share."""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from nerfmac.app.cli.declared import POSITIONAL
from nerfmac.app.cli.parsing import part_of
from nerfmac.common import InputError
from nerfmac.config.scenes import SceneOptions

Device = Literal["auto", "metal", "cuda", "cpu"]
Preset = Literal["auto", "tiny", "small", "base", "big"]


@dataclass(frozen=True)
class SceneFlags(SceneOptions):
    """Options that control how a scene is loaded."""

    typed: ClassVar[Collection[str]] = ()  # Options on the command line. `built` sets this name.

    def options(self) -> SceneOptions:
        """Return the scene options."""
        return part_of(self, SceneOptions)

    def given(self) -> dict[str, Any]:
        """Return the scene options that are given on the command line, keyed by name."""
        options = vars(self.options())
        typed = {flag.removeprefix("--").replace("-", "_") for flag in self.typed}
        return {name: value for name, value in options.items() if name in typed}

    def refuse(self, reason: str) -> None:
        """Raise `InputError` with a `reason` if any of these options is given."""
        for option in self.given():
            is_disabled = option in ("masks", "depth")
            flag = f"{'no-' * is_disabled}{option.replace('_', '-')}"
            raise InputError(f"--{flag} cannot be used: {reason}; remove --{flag}")


@dataclass(frozen=True)
class DeviceFlag:
    """Option for the device."""

    device: Device = "auto"  # Device to use. auto uses the GPU if available. [default: auto]


@dataclass(frozen=True)
class RunFlags(DeviceFlag):
    """Arguments of commands that read a run."""

    run: Annotated[Path, POSITIONAL] = field(kw_only=True)
    """Run folder, or a snapshot of instant-ngp (.ingp, .msgpack)."""
