"""`nerfmac profile`."""

from nerfmac.app.cli.options import Profile
from nerfmac.app.measure.profiling import captured, check_capture, profile, take_steps
from nerfmac.app.run import CONFIGURED, Run, Training, is_run
from nerfmac.app.scenes import builtin_scene_path, load_scene
from nerfmac.backend import choose_device, current_device, memory_bytes
from nerfmac.common import InputError, appearing_if, write_json
from nerfmac.config.presets import preset
from nerfmac.training.goal import Goal
from nerfmac.training.method import Method

WARMUP = 1024  # Default number of training steps before a scene is profiled.


def main(arguments: Profile, method: Method = CONFIGURED) -> int:
    """Run `nerfmac profile` and return the exit code."""
    choose_device(arguments.device)
    if arguments.gpu_trace:
        check_capture(arguments.gpu_trace)
    with appearing_if(arguments.trace) as trace, appearing_if(arguments.json) as json:
        training = _warmed_up(arguments, method)
        steps, seconds = arguments.steps, arguments.seconds
        figures = profile(training, steps=steps, seconds=seconds, trace=trace)
        if json:
            write_json(json, figures)
        if arguments.gpu_trace:
            with captured(arguments.gpu_trace):
                take_steps(training, 1)
    return 0


def _warmed_up(arguments: Profile, method: Method) -> Training:
    """Return the training to profile, after the warm-up steps. The warm-up is not saved."""
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
    training = Training(run)
    for _ in training.prepare():
        pass
    if warmup := warmup if arguments.warmup is None else arguments.warmup:
        training.train(Goal(steps=run.state.step + warmup))
    return training
