"""Probe the GPU of a hosted Mac with sums, a simdgroup matrix product, and float atomics.

    python scripts/probe_metal.py

A virtual machine's GPU may lack simdgroup matrices, or return zeros without an error. The exit code
is always 0: the output helps to explain failures of later CI steps. In a GitHub workflow, the
output `gpu` of the step is `yes` if MLX computes anything correctly on a GPU, and `no` otherwise.
"""

import os
import subprocess
import sys
from importlib.metadata import version
from typing import Any, NamedTuple

SECONDS = 120  # time limit of a probe, because a GPU may hang

KERNEL = """
import mlx.core as mx
mx.set_default_device(mx.gpu)
kernel = mx.fast.metal_kernel(**{made!r})
numbers = mx.arange(64, dtype=mx.float32)
(out,) = kernel(inputs=[numbers], output_dtypes=[mx.float32], **{launched!r})
got = out.sum().item()
"""
LAUNCH = {
    "grid": (64, 1, 1),
    "threadgroup": (32, 1, 1),
    "output_shapes": [(64,)],
    "init_value": 0,
}
"""Launch arguments of every kernel: 64 threads in two simdgroups, with the numbers 0 to 63 as
input."""


class Probe(NamedTuple):
    """Python program that computes a value `got`, and the expected value."""

    name: str
    program: str
    want: float


class KernelProbe(NamedTuple):
    """Kernel, and the expected sum of its results."""

    name: str
    source: str
    want: float
    atomic: bool = False

    @property
    def made(self) -> dict[str, Any]:
        """Return the arguments for `mx.fast.metal_kernel`."""
        names = {"name": "probe", "input_names": ["a"], "output_names": ["out"]}
        return {**names, "source": self.source, "atomic_outputs": self.atomic}

    @property
    def program(self) -> str:
        """Return the Python program that launches the kernel and computes `got`."""
        return KERNEL.format(made=self.made, launched=LAUNCH)


PRODUCT = """
  simdgroup_float8x8 left, right, product = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  simdgroup_load(left, a, 8);
  simdgroup_load(right, a, 8, ulong2{0, 0}, true);
  simdgroup_multiply_accumulate(product, left, right, product);
  if (thread_position_in_grid.x < 32) simdgroup_store(product, out, 8);
"""
PROBES = (
    Probe(
        "MLX's own sum",
        "import mlx.core as mx\nmx.set_default_device(mx.gpu)\n"
        "got = (mx.arange(64, dtype=mx.float32) + 1).sum().item()\n",
        2080.0,
    ),
    KernelProbe(
        "a sum by a custom kernel",
        "out[thread_position_in_grid.x] = a[thread_position_in_grid.x] + 1.0f;",
        2080.0,
    ),
    # A times its transpose; A (8, 8) has the numbers 0 to 63 in rows.
    KernelProbe("a product of simdgroup matrices", PRODUCT, 510720.0),
    KernelProbe(
        "64 atomic additions to one float",
        "atomic_fetch_add_explicit(&out[7], a[thread_position_in_grid.x], memory_order_relaxed);",
        2016.0,
        atomic=True,
    ),
)


def outcome(probe: Probe | KernelProbe) -> str:
    """Return the result of a probe as text. The probe runs in a separate process, because the
    process may crash."""
    command = [sys.executable, "-c", probe.program + "print(got)"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"does not end within {SECONDS} s"
    if ran.returncode != 0:
        messages = ran.stderr.strip().splitlines() or ["no message"]
        return f"fails with exit code {ran.returncode}: {messages[-1]}"
    got = float(ran.stdout)
    return "right" if got == probe.want else f"WRONG: {got:g} instead of {probe.want:g}"


def main() -> None:
    """Run each probe and print its result."""
    computes = False
    if found := gpu():
        print(f"MLX {version('mlx')} on {found}")
        for probe in PROBES:
            said = outcome(probe)
            computes = computes or said == "right"
            print(f"- {probe.name}: {said}", flush=True)
    if not computes:
        print("what needs a GPU is skipped: MLX finds none here that computes")
    if path := os.environ.get("GITHUB_OUTPUT"):
        with open(path, "a", encoding="utf-8") as output:
            output.write(f"gpu={'yes' if computes else 'no'}\n")


def gpu() -> str | None:
    """Return the GPU name from a separate process, because MLX may end it if there is no GPU."""
    program = (
        "import mlx.core as mx\n"
        "mx.set_default_device(mx.gpu)\n"
        "print(mx.device_info()['device_name'] if mx.metal.is_available() else '')"
    )
    command = [sys.executable, "-c", program]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return None
    return ran.stdout.strip() or None if ran.returncode == 0 else None


if __name__ == "__main__":
    main()
