"""Recording of Metal source code and kernel launches on any machine.

`mx.export_function` records the source code that MLX passes to the Metal compiler. The recorded
source code does not contain MLX's header, which includes metal_stdlib. Kernels can therefore be
read, checked, and executed on a machine without an Apple GPU.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.backend import device, kernel
from nerfmac.backend.compiling import uncompiled

DEVICE_SIZE = 8
"""Minimum number of elements for which MLX passes an input in the address space `device`. MLX
passes smaller inputs in the address space `constant`."""

Size = tuple[int, int, int]


class Launch(NamedTuple):
    """Kernel launch, as MLX would execute it on Metal."""

    name: str  # name in MLX: kernel name, template arguments, and input dtypes
    text: str
    grid: Size  # threads
    group: Size  # threads per threadgroup
    output_shapes: list[tuple[int, ...]]
    output_dtypes: list[mx.Dtype]
    zeroed: bool  # whether outputs are initialized to zero

    @property
    def specialization(self) -> str:
        """Name of the kernel in MLX, without the prefix that all kernels share."""
        return self.name.removeprefix("custom_kernel_nerfmac_")

    def zeros(self) -> list[mx.array]:
        """Return arrays of zeros with the output shapes."""
        return list(map(mx.zeros, self.output_shapes, self.output_dtypes))


StandIn = Callable[[Launch, Sequence[mx.array]], list[mx.array]]
"""Substitute for the GPU: a function that computes a launch's outputs from its inputs."""


@contextmanager
def on_metal(stand_in: StandIn) -> Iterator[None]:
    """Return a context manager that simulates a Metal device and passes launches to `stand_in`.

    Functions compiled with `mx.compile` run uncompiled, because they may contain launches on
    another device.
    """

    def launch(build: Callable[..., list[mx.array]], **call: Any) -> list[mx.array]:
        return stand_in(exported(build, call), call["inputs"])

    with uncompiled(), device.pretended("metal"), kernel.launched_by(launch):
        yield


@contextmanager
def recorded() -> Iterator[dict[str, Launch]]:
    """Return a context manager that records launches, keyed by kernel name, without running them.

    Inside the context, kernels return zeros with the output shapes.
    """
    launches: dict[str, Launch] = {}

    def record(launch: Launch, _inputs: Sequence[mx.array]) -> list[mx.array]:
        launches.setdefault(launch.name, launch)
        return launch.zeros()

    with on_metal(record):
        yield launches


def exported(build: Callable[..., list[mx.array]], call: dict[str, Any]) -> Launch:
    """Return the launch that `build(**call)` of an `mx.fast.metal_kernel` would execute."""
    recorded_arguments: list[list[Any]] = []

    def note(event: dict[str, Any]) -> None:
        if event.get("name") == "CustomKernel":
            recorded_arguments.append(event["arguments"])

    # Zeros replace the inputs, because only shapes and types are recorded and the inputs may belong
    # to another MLX trace.
    inputs = [mx.zeros(array.shape, array.dtype) for array in call["inputs"]]
    mx.export_function(note, lambda *arrays: build(**{**call, "inputs": list(arrays)}), *inputs)
    (arguments,) = recorded_arguments
    name, text, *numbers = arguments
    return Launch(
        name=name,
        text=text,
        grid=tuple(numbers[:3]),
        group=tuple(numbers[3:6]),
        output_shapes=call["output_shapes"],
        output_dtypes=call["output_dtypes"],
        zeroed="init_value" in call,
    )
