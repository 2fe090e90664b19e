"""Compare nerfmac with the same method in PyTorch: step time, and PSNR over training time.

python scripts/compare_torch.py lego_400 --seconds 30 --plot lego.png

PyTorch is not a dependency of nerfmac; install it with `pip install torch`.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from model_curves import plot_quality
from torch_peer.compare import Comparison, compare

from nerfmac.app.cli.arguments import POSITIONAL, built, given_by
from nerfmac.app.cli.options import Device, Preset
from nerfmac.app.scenes import builtin_scene_path, load_scene
from nerfmac.backend import choose_device, current_device, memory_bytes
from nerfmac.backend.build import BuildError
from nerfmac.common import InputError, appearing, checks, write_json
from nerfmac.config.presets import preset
from nerfmac.training.measured import DivergedError


@dataclass(frozen=True)
class Arguments:
    """Compare nerfmac with the same method in PyTorch: step time, and PSNR over training time.

    Both programs train on the same scene with the same configuration and for the same time. The two
    programs take turns.
    """

    scene: Annotated[Path | None, POSITIONAL] = None
    """Scene to train on. By default, the built-in scene."""
    seconds: float = 60.0
    """Training time of each program, in seconds."""
    preset: Preset = "auto"
    """Model size. auto selects a preset that fits the device and its memory."""
    device: Device = "auto"
    """Device to use."""
    plot: Path | None = None
    """Also plot both curves to this PNG file."""
    json: Path | None = None
    """Also write the measurements to this JSON file."""


def main(argv: list[str] | None = None) -> None:
    """Run the comparison with the arguments `argv`. After an error, exit with code 2."""
    try:
        words = sys.argv[1:] if argv is None else argv
        _run(built(Arguments, given_by("compare_torch.py", Arguments, words)))
    except (InputError, BuildError, DivergedError) as error:
        print(f"compare_torch.py: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("compare_torch.py: interrupted", file=sys.stderr)
        sys.exit(130)


def _run(arguments: Arguments) -> None:
    checks.number("seconds", arguments.seconds, low=0.1)
    with ExitStack() as files:
        # An unwritable file is reported here. A file appears only when it is complete.
        json, image = (
            files.enter_context(appearing(path)) if path else None
            for path in (arguments.json, arguments.plot)
        )
        comparison = _compared(arguments)
        if image:
            about = comparison.about
            title = f"{about['scene']}, preset {about['preset']}, {about['machine']}"
            plot_quality(image, comparison.curves(), title=title)
        if json:
            write_json(json, comparison.to_json())


def _compared(arguments: Arguments) -> Comparison:
    """Compare both programs, print the table, and return the comparison."""
    if find_spec("torch") is None:
        raise InputError("PyTorch is not installed; install it with `pip install torch`")
    choose_device(arguments.device)
    config = preset(arguments.preset, current_device(), memory_bytes())
    scene = load_scene(arguments.scene or builtin_scene_path())
    scene.views("test")  # rejects a scene without test views before anything is compiled
    seconds = arguments.seconds
    print(
        f"{scene.name}, preset {config.preset}: each trains for {seconds:g} s, alternating",
        flush=True,
    )
    comparison = compare(scene, config, seconds=seconds)
    for line in comparison.lines():
        print(line)
    return comparison


if __name__ == "__main__":
    main()
