"""`nerfmac selftest`: every kernel against its reference on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import tyro

from nerfmac.backend import choose_device, current_device, device_name
from nerfmac.backend.device import gpu
from nerfmac.backend.kernel import why_reference
from nerfmac.checks import InputError
from nerfmac.selftest import cases, compare


@dataclass(frozen=True)
class Arguments:
    """Compare results and gradients of every kernel with plain MLX operations."""

    device: Literal["all", "metal", "cuda", "cpu"] = "all"
    """Which of this machine's devices."""


def main(argv: list[str]) -> int:
    """Test as `argv` says; return 0 if everything agrees, else 1."""
    arguments = tyro.cli(Arguments, prog="nerfmac selftest", args=argv)
    devices = [gpu(), "cpu"] if arguments.device == "all" else [arguments.device]
    failures = [_test(device) for device in devices if device]
    return 1 if any(failures) else 0


def _test(device: str) -> int:
    """Print one device's table; return how many comparisons failed."""
    choose_device(device)
    print(f"{current_device()}: {device_name()}")
    if why := why_reference():
        raise InputError(f"there are no kernels to test on {device}: {why}")
    compared = failed = 0
    for case in cases():
        outcomes = compare(case)
        worst = max(outcome.error for outcome in outcomes)
        bad = [outcome.array for outcome in outcomes if not outcome.passed]
        verdict = f"DIFFERS: {', '.join(bad)}" if bad else "ok"
        print(f"  {case!s:36} error {worst:8.1e}  of {case.tolerance:.1e}  {verdict}", flush=True)
        compared, failed = compared + len(outcomes), failed + len(bad)
    print(f"{device}: {compared - failed} of {compared} arrays agree with their references")
    return failed
