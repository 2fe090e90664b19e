"""Text files that contain nothing but numbers, separated by spaces or commas."""

from pathlib import Path

import numpy as np

from nerfmac.common import LARGEST, Float64Array, InputError


def read_numbers(path: Path) -> Float64Array:
    """Return all numbers (n,) in a text file, row by row."""
    try:
        return finite_numbers(path.read_text().replace(",", " ").split(), path)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a text file of numbers: {error}") from error


def finite_numbers(words: list[str], path: Path) -> Float64Array:
    """Convert words in a file to finite numbers (n,)."""
    try:
        numbers = np.array(words, np.float64)
    except ValueError as error:
        raise InputError(f"{path} is not a text file of numbers: {error}") from error
    if not (np.abs(numbers) <= LARGEST).all():
        raise InputError(f"{path} contains a number that is not finite")
    return numbers
