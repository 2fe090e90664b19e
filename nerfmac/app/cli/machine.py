"""`nerfmac tune`, `nerfmac bench`, and `nerfmac profile`."""

from nerfmac.app.cli.options import Bench, Profile, Tune
from nerfmac.app.measure.benchmark import benchmark
from nerfmac.app.measure.launches import trained
from nerfmac.app.measure.parts import take_steps
from nerfmac.app.measure.profiling import captured, check_capture, profile as profile_run
from nerfmac.app.measure.tuning import Tried, Tuned, tune as tune_variants
from nerfmac.app.run import CONFIGURED, Run, Training, is_run
from nerfmac.app.run.configuration import facts_of
from nerfmac.app.scenes import builtin_scene_path, load_scene
from nerfmac.backend import choose_device, current_device, memory_bytes
from nerfmac.backend.machine import machine
from nerfmac.backend.variants import VARIANTS, from_environment, path
from nerfmac.common import InputError, appearing_if, write_json
from nerfmac.config.presets import preset
from nerfmac.training.measured import DivergedError
from nerfmac.training.method import Method
from nerfmac.training.resolve import resolve


def tune(arguments: Tune) -> int:
    """Run `nerfmac tune` and return the exit code."""
    options = arguments.options()
    if arguments.scene is None:
        arguments.refuse("the option requires SCENE, but no SCENE is given")
    choose_device(arguments.device)
    forced = from_environment()
    config, extent = preset(arguments.preset, current_device(), memory_bytes()), 1.0
    if arguments.scene is not None:
        scene = load_scene(arguments.scene, **vars(options))
        config, extent = resolve(config, facts_of(scene)), scene.extent
    with appearing_if(arguments.json) as json:
        about = machine()
        print(f"{about['device_name']}, mlx {about['mlx_version']}, preset {config.preset}")
        done = tune_variants(config, extent, seconds=arguments.seconds, on_tuned=_print)
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


def _show(line: str) -> None:
    print(line, flush=True)


def bench(arguments: Bench) -> int:
    """Run `nerfmac bench` and return the exit code."""
    options = arguments.options()
    with appearing_if(arguments.json) as json:
        choose_device(arguments.device)
        scene = load_scene(arguments.scene or builtin_scene_path(), **vars(options))
        config = preset(arguments.preset, current_device(), memory_bytes())
        try:
            figures = benchmark(scene, config, seconds=arguments.seconds, on_line=_show)
        except DivergedError as error:
            raise InputError(f"the measurement stopped early: {error}") from error
        if json:
            write_json(json, figures)
    return 0


WARMUP = 1024  # Default number of training steps before a scene is profiled.


def profile(arguments: Profile, method: Method = CONFIGURED) -> int:
    """Run `nerfmac profile` and return the exit code."""
    choose_device(arguments.device)
    if arguments.gpu_trace:
        check_capture(arguments.gpu_trace)
    with appearing_if(arguments.trace) as trace, appearing_if(arguments.json) as json:
        run = _warmed_up(arguments, method)
        figures = profile_run(
            run,
            steps=arguments.steps,
            seconds=arguments.seconds,
            trace=trace,
            on_line=_show,
        )
        if json:
            write_json(json, figures.to_json())
        if arguments.gpu_trace:
            with captured(arguments.gpu_trace):
                take_steps(run, 1)
    return 0


def _warmed_up(arguments: Profile, method: Method) -> Run:
    """Return the run to profile, after the warm-up steps. The warm-up is not saved."""
    path = arguments.run_or_scene or builtin_scene_path()
    if is_run(path):
        if arguments.preset != "auto" or arguments.model != "hash":
            raise InputError(
                f"--preset and --model cannot be used with the run {path}; remove these options"
            )
        arguments.refuse(f"{path} is a run, and the scene options of a run cannot be changed")
        run, warmup = Run.load(path, method=method), 0
    else:
        scene = load_scene(path, **vars(arguments.options()))
        config = preset(arguments.preset, current_device(), memory_bytes(), arguments.model)
        run, warmup = Run.begin(scene, config, method=method), WARMUP
    for _ in Training(run).prepare():
        pass
    warmup = warmup if arguments.warmup is None else arguments.warmup
    return trained(run, run.state.step + warmup) if warmup else run
