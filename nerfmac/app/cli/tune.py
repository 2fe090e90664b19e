"""`nerfmac tune`: select the fastest variant of each operation on this machine."""

from __future__ import annotations

from nerfmac.app.cli.options import Tune
from nerfmac.app.measure.tuning import SECONDS, Tried, Tuned, tune
from nerfmac.app.run import CONFIGURED, config_for_scene
from nerfmac.app.scenes import load_scene
from nerfmac.backend import choose_device, current_device, memory_bytes
from nerfmac.backend.machine import machine
from nerfmac.backend.variants import VARIANTS, from_environment, path
from nerfmac.common import checks
from nerfmac.common.files import appearing_if, write_json
from nerfmac.config.presets import preset


def main(arguments: Tune) -> int:
    """Run `nerfmac tune` and return the exit code."""
    seconds = SECONDS if arguments.seconds is None else arguments.seconds
    checks.number("seconds", seconds, low=0.01)
    options = arguments.options()
    if arguments.scene is None:
        arguments.refuse("the option requires SCENE, but no SCENE is given")
    choose_device(arguments.device)
    forced = from_environment()
    config, extent = preset(arguments.preset, current_device(), memory_bytes()), 1.0
    if arguments.scene is not None:
        scene = load_scene(arguments.scene, **vars(options))
        config, extent = config_for_scene(config, scene, CONFIGURED), scene.extent
    with appearing_if(arguments.json) as json:
        about = machine()
        print(f"{about['device_name']}, mlx {about['mlx_version']}, preset {config.preset}")
        done = tune(config, extent, seconds=seconds, on_tuned=_print)
        if json:
            values = {tuned.operation: tuned.to_json() for tuned in done}
            write_json(json, {**about, "preset": config.preset, "variants": values})
    for name in sorted({*VARIANTS} - {tuned.operation for tuned in done}):
        print(f"{name}: {VARIANTS[name].here[0]} is the only variant on this device")
    print(f"saved the selected variants (*) to {path(config)}")
    for name, chosen in forced.items():
        print(f"NERFMAC_VARIANTS overrides the selection: {name}={chosen}")
    return 0


def _print(tuned: Tuned) -> None:
    print(tuned.operation)
    for tried in tuned.tried:
        mark = "*" if tried.name == tuned.chosen else " "
        print(f"  {mark} {tried.name:14}{_outcome(tried)}", flush=True)


def _outcome(tried: Tried) -> str:
    if tried.timing is None or tried.ratio is None or tried.at_most is None:
        return f"FAILS: {tried.fault}"
    median, low, high, _ = tried.timing
    spread = f"({low:.3f} to {high:.3f})"
    ratio = f"{tried.ratio:7.2f} of the time of the reference (at most {tried.at_most:.2f})"
    return f"{median:9.3f} ms {spread:>20}{ratio}"
