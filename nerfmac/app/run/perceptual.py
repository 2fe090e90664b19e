"""LPIPS (Zhang et al. 2018), a perceptual distance between images, version 0.1 with AlexNet.

Both images are scaled to [-1, 1], normalized per channel, and passed through AlexNet's five
convolutions. The features x and y after each convolution are normalized to unit length per pixel.
LPIPS is defined as

    LPIPS = sum over layers of the mean over pixels of sum over channels w (x - y)^2

The user must provide AlexNet's weights and w. nerfmac does not include or download them.
"""

import re
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile, is_zipfile

import mlx.core as mx
from mlx import nn

from nerfmac.common import InputError

SHIFT, SPREAD = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)

SMALLEST = 31
"""Minimum width and height of an image, in pixels. AlexNet's last layers reduce an image of this
size to one pixel."""

MOST_BYTES = 2**28
"""Maximum decompressed size of an .npz file in bytes. The weights require about 10 MB."""
RECIPE = "lpips.LPIPS(net='alex').state_dict() saved by safetensors.torch.save_file, or as an .npz"


class Layer(NamedTuple):
    """AlexNet convolution followed by ReLU."""

    number: int  # index of the layer in torchvision's AlexNet
    stride: int
    padding: int
    is_pooled: bool  # whether the input is max-pooled, 3 x 3 with stride 2
    shape: tuple[int, int, int, int]  # outputs, inputs, height, width


LAYERS = (
    Layer(0, 4, 2, False, (64, 3, 11, 11)),
    Layer(3, 1, 2, True, (192, 64, 5, 5)),
    Layer(6, 1, 1, True, (384, 192, 3, 3)),
    Layer(8, 1, 1, False, (256, 384, 3, 3)),
    Layer(10, 1, 1, False, (256, 256, 3, 3)),
)


class Lpips:
    """LPIPS metric with weights from a file."""

    def __init__(self, path: str | Path) -> None:
        """Read weights from a .safetensors or .npz file with the array names of the package lpips.

        The names are `net.sliceN.M.weight` and `.bias`, with M as in torchvision's AlexNet, and
        `linN.model.1.weight`. Other names are ignored.
        """
        arrays = _read(Path(path))
        self._layers = []
        for index, layer in enumerate(LAYERS):
            convolution = rf"(net\.slice\d\.|features\.){layer.number}\."
            outputs = layer.shape[0]
            weight = _weights(arrays, convolution + "weight", layer.shape, path)
            bias = _weights(arrays, convolution + "bias", (outputs,), path)
            linear = _weights(arrays, rf"lin{index}\.model\.1\.weight", (1, outputs, 1, 1), path)
            self._layers.append((weight.transpose(0, 2, 3, 1), bias, linear.reshape(outputs)))

    def __call__(self, image: mx.array, target: mx.array) -> mx.array:
        """Return the LPIPS, a float32 scalar, of two (h, w, 3) images in [0, 1].

        Each side must have at least 31 pixels.
        """
        if image.shape != target.shape or image.ndim != 3 or image.shape[2] != 3:
            raise InputError(
                f"images have shapes {image.shape} and {target.shape}; expected (h, w, 3) for both"
            )
        if min(image.shape[:2]) < SMALLEST:
            raise InputError(
                f"images are {image.shape[1]}x{image.shape[0]}; LPIPS needs at least {SMALLEST} "
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
        raise InputError(f"{path} does not contain weights of LPIPS; expected {RECIPE}")
    try:
        if is_zipfile(path) and (size := _inflated_bytes(path)) > MOST_BYTES:
            raise InputError(f"{path} has a decompressed size of {size} bytes; expected {RECIPE}")
        loaded = mx.load(str(path))
    except Exception as error:  # zipfile also raises exceptions from zlib and struct
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} cannot be read: {error}") from error
    if not isinstance(loaded, dict):
        raise InputError(f"{path} does not contain named arrays; expected {RECIPE}")
    return loaded


def _inflated_bytes(path: Path) -> int:
    with ZipFile(path) as archive:
        return sum(member.file_size for member in archive.infolist())


def _weights(
    arrays: dict[str, mx.array], pattern: str, shape: tuple[int, ...], path: str | Path
) -> mx.array:
    """Return the first array with a name that matches `pattern`, as float32."""
    matches = [values for name, values in arrays.items() if re.fullmatch(pattern, name)]
    if not matches:
        raise InputError(f"{path} has no {pattern.replace(chr(92), '')}; expected {RECIPE}")
    if matches[0].shape != shape:
        raise InputError(f"{path}: weights have shape {matches[0].shape}; AlexNet's are {shape}")
    return matches[0].astype(mx.float32)
