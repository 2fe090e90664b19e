"""`nerfmac profile` and `nerfmac selftest`: measurement of kernels on this machine."""

import os
import sys
from pathlib import Path

import mlx.core as mx

from nerfmac.app.cli.options import Profile, Selftest
from nerfmac.app.measure.profiling import profile as profiled, take_steps
from nerfmac.app.measure.selftest import cases, comparison
from nerfmac.app.measure.selftest.specializations import launched_and_missed, write_metal
from nerfmac.app.run import CONFIGURED, Run, Training, is_run
from nerfmac.app.scenes import builtin_scene_path, load_scene
from nerfmac.backend import choose_device, current_device, gpu, memory_bytes, why_reference
from nerfmac.backend.machine import software
from nerfmac.backend.sources import operations
from nerfmac.common import InputError, appearing_if, checks, write_json
from nerfmac.config.presets import preset
from nerfmac.training.goal import Goal
from nerfmac.training.method import Method

WARMUP = 1024  # Default number of training steps before a scene is profiled.


def profile(arguments: Profile, method: Method = CONFIGURED) -> int:
    """Run `nerfmac profile` and return the exit code."""
    choose_device(arguments.device)
    if arguments.gpu_trace:
        _check_gpu_trace(arguments.gpu_trace)
    with appearing_if(arguments.trace) as trace, appearing_if(arguments.json) as json:
        training = _warmed_up(arguments, method)
        steps, seconds = arguments.steps, arguments.seconds
        figures = profiled(training, steps=steps, seconds=seconds, trace=trace)
        if json:
            write_json(json, figures)
        if arguments.gpu_trace:
            _write_gpu_trace(arguments.gpu_trace, training)
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


def _check_gpu_trace(path: Path) -> None:
    """Raise `InputError` if Metal cannot write a GPU trace to `path` on this machine."""
    if not mx.metal.is_available():
        raise InputError("--gpu-trace requires Metal; use a Mac with an Apple GPU")
    if os.environ.get("MTL_CAPTURE_ENABLED") != "1":
        raise InputError(
            "--gpu-trace requires MTL_CAPTURE_ENABLED=1; set this environment variable"
        )
    if path.suffix != ".gputrace":
        raise InputError(f"--gpu-trace is {path}; expected the file extension .gputrace")
    if path.exists():
        raise InputError(f"{path} already exists and cannot be overwritten; choose another name")


def _write_gpu_trace(path: Path, training: Training) -> None:
    """Write a GPU trace of the next training step for Xcode; see `_check_gpu_trace`."""
    mx.metal.start_capture(str(path))
    try:
        take_steps(training, 1)
    finally:
        mx.metal.stop_capture()


def selftest(arguments: Selftest) -> int:
    """Run `nerfmac selftest` and return the exit code, 0 if all kernels match their references."""
    if folder := arguments.dump_metal:
        if arguments != Selftest(dump_metal=folder):
            raise InputError("--dump-metal cannot be used with other options; remove these options")
        count = len(write_metal(folder))
        print(f"wrote the Metal source code of {count} specializations to {folder}")
        return 0
    tested = operations()
    if arguments.operation:
        checks.choice("operation", arguments.operation, tested)
        tested = (arguments.operation,)
    devices = _testable(arguments.device, tested)
    report = comparison.Report(arguments.report)
    versions = software().items()
    print(", ".join(f"{name.removesuffix('_version')} {value}" for name, value in versions))
    try:
        for device in devices:
            choose_device(device)
            chosen = [case for case in cases() if case.operation in tested]
            done = comparison.compare_all(chosen, report)
            if device == "metal" and arguments.operation is None:
                _report_specializations(done, report)
        report.end()
    except KeyboardInterrupt as interruption:
        if not report.path:
            raise
        report.save()  # The interruption may have happened during a write.
        message = f"the results so far are in {report.path}"
        raise KeyboardInterrupt(message) from interruption
    if report.path:
        print(f"wrote the report to {report.path}")
    elif not report.passed:
        print("to report this, run `nerfmac selftest --report FILE` and attach the file")
    return 0 if report.passed else 1


def _testable(wanted: str, tested: tuple[str, ...]) -> list[str]:
    """Return the devices that can run all operations in `tested` as kernels. A Mac does not need
    CPU kernels, so its CPU is skipped silently if they cannot be built."""
    devices = list(filter(None, (gpu(), "cpu"))) if wanted == "all" else [wanted]
    testable: list[str] = []
    reasons = []
    for device in devices:
        choose_device(device)
        if device == "cpu" and testable == ["metal"] and why_reference(builds=False):
            continue
        reason = next(filter(None, map(why_reference, tested)), None)
        if reason:
            reasons.append(f"no kernels to test on {device}: {reason}")
        else:
            testable.append(device)
    if not testable:
        raise InputError(reasons[0])
    for reason in reasons:
        print(f"nerfmac: {reason}", file=sys.stderr)
    return testable


def _report_specializations(done: list[comparison.Compared], report: comparison.Report) -> None:
    """Print the reachable specializations that no case launched, and add them to the report."""
    ran, not_run = launched_and_missed(done)
    print(f"  {len(ran)} of {len(ran) + len(not_run)} reachable specializations ran")
    for name in not_run:
        print(f"    NOT RUN: {name}")
    report.add_not_run(not_run)
