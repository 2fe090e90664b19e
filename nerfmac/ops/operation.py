"""`Operation`: a kernel, its gradient, and its reference implementation in plain MLX.

    @operation("power", reference=power_reference)
    def _power(x, *, exponent):
        return _KERNEL(x, grid=(x.size, 1, 1), ...)

    @_power.vjp
    def _power_vjp(x, cotangent, output, *, exponent):
        return _GRADIENT(x, cotangent, grid=(x.size, 1, 1), ...)

    cubes = _power(x, exponent=3)

An operation works like `mx.custom_function`. However, if the machine cannot run kernels, the
reference replaces the kernel and its gradient.
"""

from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

import mlx.core as mx

from nerfmac.backend import runs_kernel

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Function = Callable[..., Any]


class Operation(Generic[Arguments, Result]):
    """Function that launches a kernel or, if the machine cannot run kernels, calls the reference
    implementation."""

    def __init__(self, name: str, launch: Function, reference: Callable[Arguments, Result]) -> None:
        """Combine a launch function and a reference. Use the decorator `operation` instead of this
        constructor.

        Args:
            name: Name of the operation, as passed to `nerfmac.backend.runs_kernel`.
            launch: Function that launches the kernel and returns either the same structure as the
                reference or the list of outputs of a `Kernel`. A list is converted to one array or
                a tuple of arrays.
            reference: Function with the same arguments and results, in plain MLX.
        """
        self._name, self._launch, self._reference = name, launch, reference
        self._vjp: Function | None = None

    def vjp(self, gradient: Function) -> Function:
        """Register the kernel's gradient. This method is a decorator.

        Args:
            gradient: Function with the positional arguments of a gradient for `mx.custom_function`
                (primals, cotangents, and outputs) and with the keyword arguments of the operation.
                The function returns one gradient for each positional argument of the operation.

        Returns:
            `gradient`, unchanged.
        """
        self._vjp = gradient
        return gradient

    def __call__(self, *arrays: Arguments.args, **constants: Arguments.kwargs) -> Result:
        """Run the kernel or the reference.

        Args:
            arrays: Positional arguments. If the operation has a gradient, they must be arrays.
            constants: Keyword arguments, which have no gradient.

        Returns:
            Result of the kernel or the reference, with the same structure in both cases.
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
    """Return a decorator that converts a function to an `Operation`. The function launches a
    kernel.

    Args:
        name: Name of the operation, as passed to `nerfmac.backend.runs_kernel`.
        reference: Function with the same arguments and results, in plain MLX.

    Returns:
        Decorator for a function that launches the kernel.
    """
    return lambda launch: Operation(name, launch, reference)
