"""`Operation`: a kernel together with its reference in plain MLX and its gradient.

    @operation("power", reference=power_reference)
    def _power(x, *, exponent):
        return _KERNEL(x, grid=(x.size, 1, 1), ...)

    @_power.vjp
    def _power_vjp(x, cotangent, output, *, exponent):
        return _GRADIENT(x, cotangent, grid=(x.size, 1, 1), ...)

    cubes = _power(x, exponent=3)

An operation works like `mx.custom_function`, but plain MLX replaces the kernel if the machine
cannot run kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

import mlx.core as mx

from nerfmac.backend import runs_kernel

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Function = Callable[..., Any]


class Operation(Generic[Arguments, Result]):
    """A function that launches a kernel or, if the machine cannot run kernels, calls the
    reference."""

    def __init__(self, name: str, launch: Function, reference: Callable[Arguments, Result]) -> None:
        """Combine a launch and a reference. Use the decorator `operation` instead of this
        constructor.

        Args:
            name: Name of the operation, as in `nerfmac.backend.runs_kernel`.
            launch: Function that launches the kernel. The function returns the same structure as
                the reference, or the list of outputs of a `Kernel`. A list is converted to one
                array or a tuple of arrays.
            reference: Function with the same arguments and results, in plain MLX.
        """
        self._name, self._launch, self._reference = name, launch, reference
        self._vjp: Function | None = None

    def vjp(self, gradient: Function) -> Function:
        """Register the gradient of the kernel. This method is a decorator.

        Args:
            gradient: Function with the same signature as for `mx.custom_function` (arguments,
                cotangents, and outputs), and with the keyword arguments of the kernel. The function
                returns one gradient for each argument.

        Returns:
            `gradient` itself.
        """
        self._vjp = gradient
        return gradient

    def __call__(self, *arrays: Arguments.args, **constants: Arguments.kwargs) -> Result:
        """Compute the operation.

        Args:
            arrays: Positional arguments. If the operation has a gradient, they are arrays.
            constants: Keyword arguments, which have no gradient.

        Returns:
            Result of the kernel or of the reference. Both have the same structure.
        """
        if not runs_kernel(self._name):
            return self._reference(*arrays, **constants)

        def run(*inputs: Any) -> Any:
            result = self._launch(*inputs, **constants)
            if not isinstance(result, list):
                return result
            return result[0] if len(result) == 1 else tuple(result)

        if (vjp := self._vjp) is None:
            return run(*arrays)
        differentiable: Any = mx.custom_function(run)
        differentiable.vjp(lambda *values: vjp(*values, **constants))
        return differentiable(*arrays)


def operation(
    name: str, reference: Callable[Arguments, Result]
) -> Callable[[Function], Operation[Arguments, Result]]:
    """Return a decorator that makes an `Operation` of a function that launches a kernel.

    Args:
        name: Name of the operation, as in `nerfmac.backend.runs_kernel`.
        reference: Function with the same arguments and results, in plain MLX.

    Returns:
        Decorator for a function that launches the kernel.
    """
    return lambda launch: Operation(name, launch, reference)
