"""Text files that contain nothing but numbers, separated by spaces or commas."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from nerfmac.common import LARGEST, InputError


def read_numbers(path: Path) -> npt.NDArray[np.float64]:
    """Return all numbers (n,) in a text file, row by row."""
    try:
        return finite_numbers(path.read_text().replace(",", " ").split(), path)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a text file of numbers: {error}") from error


def finite_numbers(words: list[str], path: Path) -> npt.NDArray[np.float64]:
    """Convert words in a file to finite numbers (n,)."""
    try:
        numbers = np.array(words, np.float64)
    except ValueError as error:
        raise InputError(f"{path} is not a text file of numbers: {error}") from error
    if not (np.abs(numbers) <= LARGEST).all():
        raise InputError(f"{path} contains a number that is not finite")
    return numbers
