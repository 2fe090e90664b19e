"""What a hosted Mac's GPU can do: one sum, one matrix product, one float atomic, each by itself.

    python scripts/probe_metal.py

A virtual machine's GPU may lack simdgroup matrices, or give zeros and no error. The exit code is
always 0: this says what was found, and a later step's failure can be read beside it. On a machine
without Metal it says so.
"""

import subprocess
import sys
from importlib.metadata import version
from typing import Any, NamedTuple

SECONDS = 120  # for one probe: a GPU may hang too

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
"""Of every kernel: the numbers 0 to 63, two simdgroups."""


class Probe(NamedTuple):
    """A program that ends with the value of `got`, and what it should be."""

    name: str
    program: str
    want: float


class KernelProbe(NamedTuple):
    """A kernel, and what its results' sum should be."""

    name: str
    source: str
    want: float
    atomic: bool = False

    @property
    def made(self) -> dict[str, Any]:
        """The arguments by which MLX makes the kernel."""
        names = {"name": "probe", "input_names": ["a"], "output_names": ["out"]}
        return {**names, "source": self.source, "atomic_outputs": self.atomic}

    @property
    def program(self) -> str:
        """The program that runs it."""
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
        "a sum by a kernel of ours",
        "out[thread_position_in_grid.x] = a[thread_position_in_grid.x] + 1.0f;",
        2080.0,
    ),
    # A times its transpose, where A has the numbers in rows of eight.
    KernelProbe("a product of simdgroup matrices", PRODUCT, 510720.0),
    KernelProbe(
        "64 atomic additions to one float",
        "atomic_fetch_add_explicit(&out[7], a[thread_position_in_grid.x], memory_order_relaxed);",
        2016.0,
        atomic=True,
    ),
)


def outcome(probe: Probe | KernelProbe) -> str:
    """What came of a probe, in words. It runs in a process of its own, since it may crash."""
    command = [sys.executable, "-c", probe.program + "print(got)"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"runs on for {SECONDS} s"
    if ran.returncode != 0:
        said = ran.stderr.strip().splitlines() or ["without a word"]
        return f"fails with exit code {ran.returncode}: {said[-1]}"
    got = float(ran.stdout)
    return "right" if got == probe.want else f"WRONG: {got:g} instead of {probe.want:g}"


def main() -> None:
    """Run each probe and say what came of it."""
    import mlx.core as mx

    if not mx.metal.is_available():
        print("MLX finds no Metal on this machine")
        return
    print(f"MLX {version('mlx')} on {mx.device_info()['device_name']}")
    for probe in PROBES:
        print(f"- {probe.name}: {outcome(probe)}", flush=True)


if __name__ == "__main__":
    main()
