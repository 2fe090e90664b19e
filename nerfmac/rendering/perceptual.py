"""LPIPS: how alike two pictures look, by what a network for recognising objects sees in them.

Zhang, Isola, Efros, Shechtman, Wang: The Unreasonable Effectiveness of Deep Features as a
Perceptual Metric (2018), version 0.1 with AlexNet. Both pictures, as values in [-1, 1] less a mean
and over a spread for each channel, go through AlexNet's five convolutions. After each, channels are
normalised to length one, and

    LPIPS = sum over layers of the mean over places of sum over channels w (x - y)^2

The weights, of AlexNet and w, are the user's: nerfmac has none and fetches none.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx
from mlx import nn

from nerfmac.common.checks import InputError

SHIFT, SPREAD = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)

SMALLEST = 31
"""Pixels on a side, of which AlexNet's last layers leave one."""

RECIPE = "lpips.LPIPS(net='alex').state_dict() saved by safetensors.torch.save_file, or as an .npz"


class Layer(NamedTuple):
    """A convolution of AlexNet, followed by ReLU."""

    number: int  # in torchvision's list
    stride: int
    padding: int
    is_pooled: bool  # whether its input is the maximum over 3 x 3, every second one
    shape: tuple[int, int, int, int]  # outputs, inputs, height, width


LAYERS = (
    Layer(0, 4, 2, False, (64, 3, 11, 11)),
    Layer(3, 1, 2, True, (192, 64, 5, 5)),
    Layer(6, 1, 1, True, (384, 192, 3, 3)),
    Layer(8, 1, 1, False, (256, 384, 3, 3)),
    Layer(10, 1, 1, False, (256, 256, 3, 3)),
)


class Lpips:
    """The measure, with weights from a file."""

    def __init__(self, path: str | Path) -> None:
        """Read the weights of the file, .safetensors or .npz, by the names that lpips has.

        They are `net.sliceN.M.weight` and `.bias`, M as in torchvision's AlexNet, and
        `linN.model.1.weight`; other names are ignored. Raises `InputError`.
        """
        given = _read(Path(path))
        self._layers = []
        for index, layer in enumerate(LAYERS):
            convolution = rf"(net\.slice\d\.|features\.){layer.number}\."
            outputs = layer.shape[0]
            weight = _only(given, convolution + "weight", layer.shape, path)
            bias = _only(given, convolution + "bias", (outputs,), path)
            linear = _only(given, rf"lin{index}\.model\.1\.weight", (1, outputs, 1, 1), path)
            self._layers.append((weight.transpose(0, 2, 3, 1), bias, linear.reshape(outputs)))

    def __call__(self, image: mx.array, target: mx.array) -> mx.array:
        """() float32, of two (h, w, 3) pictures in [0, 1]; 0 if they are equal.

        Raises `InputError` for different shapes, and for fewer than 31 pixels on a side.
        """
        if image.shape != target.shape or image.ndim != 3 or image.shape[2] != 3:
            raise InputError(f"pictures have shapes {image.shape} and {target.shape}; expected one")
        if min(image.shape[:2]) < SMALLEST:
            raise InputError(
                f"pictures are {image.shape[1]}x{image.shape[0]}; LPIPS needs at least {SMALLEST} "
                "pixels on a side"
            )
        values = (2.0 * mx.stack([image, target]) - 1.0 - mx.array(SHIFT)) / mx.array(SPREAD)
        pool, total = nn.MaxPool2d(3, 2), mx.array(0.0)
        for layer, (weight, bias, linear) in zip(LAYERS, self._layers, strict=True):
            values = pool(values) if layer.is_pooled else values
            values = mx.conv2d(values, weight, layer.stride, layer.padding) + bias
            values = mx.maximum(values, 0.0)
            unit = values / (mx.linalg.norm(values, axis=-1, keepdims=True) + 1e-10)
            total = total + ((unit[0] - unit[1]) ** 2 * linear).sum(axis=-1).mean()
        return total


def _read(path: Path) -> dict[str, mx.array]:
    if path.suffix.lower() not in (".safetensors", ".npz"):
        raise InputError(f"{path} holds no weights of LPIPS; expected {RECIPE}")
    try:
        loaded = mx.load(str(path))
    except (RuntimeError, ValueError, IndexError, OSError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    if not isinstance(loaded, dict):
        raise InputError(f"{path} holds no named arrays; expected {RECIPE}")
    return loaded


def _only(
    given: dict[str, mx.array], pattern: str, shape: tuple[int, ...], path: str | Path
) -> mx.array:
    """The array whose name fits, float32. Raises `InputError`."""
    found = [values for name, values in given.items() if re.fullmatch(pattern, name)]
    if not found:
        raise InputError(f"{path} has no {pattern.replace(chr(92), '')}; expected {RECIPE}")
    if found[0].shape != shape:
        raise InputError(f"{path}: weights have shape {found[0].shape}; AlexNet's are {shape}")
    return found[0].astype(mx.float32)
