"""`TrainState`: all values that training changes. Training can be saved and resumed with only these
values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from nerfmac.backend import Arrays, Shapes
from nerfmac.common import InputError, checks
from nerfmac.fields.field import Parameters
from nerfmac.ops.loss_scale import LossScale


@dataclass(frozen=True)
class TrainState:
    """Training state between two steps.

    The state contains no random state, because the random key of each step is derived from the seed
    and the step number.
    """

    parameters: Parameters
    average: Parameters  # moving average of the parameters, used for rendering
    moments: Arrays  # Adam's moments, packed by `ops.adam`
    sampling: Arrays  # state of the sampler
    scaling: Arrays  # fields of a `LossScale`
    samples_per_ray: mx.array  # float32 scalar, last measured mean number of slots per ray
    step: int = 0  # number of steps so far
    rays: int = 0  # number of rays in the next step
    next_update: int = 0  # number of steps before the next update of the sampler state
    train_seconds: float = 0.0  # training time so far in seconds
    train_frac: float = 0.0  # completed fraction of the training, in [0, 1]

    _TREES = ("parameters", "average", "moments", "sampling", "scaling")
    _NUMBERS = ("step", "rays", "next_update", "train_seconds", "train_frac")

    def arrays(self) -> Arrays:
        """Return all arrays, keyed by dotted names such as "parameters.table"."""
        flat = {
            f"{tree}.{name}": values
            for tree in self._TREES
            for name, values in getattr(self, tree).items()
        }
        return {**flat, "samples_per_ray": self.samples_per_ray}

    def numbers(self) -> dict[str, int | float]:
        """Return all values that are not arrays, keyed by name."""
        return {name: getattr(self, name) for name in self._NUMBERS}

    @classmethod
    def shapes(cls, parameters: Shapes, sampling: Shapes) -> Shapes:
        """Return the shapes of `arrays()`, given the shapes of the parameters and of the sampler
        state."""
        scaling: Shapes = dict.fromkeys(LossScale._fields, ())
        others = {"sampling": sampling, "scaling": scaling}
        trees = {
            f"{tree}.{name}": shape
            for tree in cls._TREES
            for name, shape in others.get(tree, parameters).items()
        }
        return {**trees, "samples_per_ray": ()}

    @classmethod
    def of(cls, arrays: Arrays, numbers: dict[str, Any]) -> TrainState:
        """Create a state from the results of `arrays()` and `numbers()`.

        Raises `InputError` if a number or `samples_per_ray` is missing, or if a number is negative.
        Other arrays are not checked.
        """
        trees: dict[str, Any] = {tree: {} for tree in cls._TREES}
        for name, values in arrays.items():
            tree, _, leaf = name.partition(".")
            if tree in trees:
                trees[tree][leaf] = values
        try:
            scalars = {name: numbers[name] for name in cls._NUMBERS}
            samples_per_ray = arrays["samples_per_ray"]
        except KeyError as error:
            raise InputError(f"{error.args[0]} is missing from the state") from error
        for name, value in scalars.items():
            checks.number(name, value, low=0, whole=not name.startswith("train_"))
        return cls(**trees, samples_per_ray=samples_per_ray, **scalars)
