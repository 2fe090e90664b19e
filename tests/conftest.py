"""What every test uses: markers that ask for a device, and the folder of real scenes."""

import os
from pathlib import Path

import mlx.core as mx
import pytest

pytest.register_assert_rewrite("numerics", "tests.numerics")

ROOT = Path(__file__).resolve().parents[1]
NEEDS = {
    "cuda": (mx.cuda.is_available, "needs an NVIDIA GPU with MLX's CUDA back end"),
    "metal": (mx.metal.is_available, "needs an Apple GPU with MLX's Metal back end"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, with the reason shown, each test whose marked device is absent."""
    for marker, (is_available, reason) in NEEDS.items():
        if is_available():
            continue
        for item in items:
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def real_scenes() -> Path:
    """Return the folder of real scenes: $NERFMAC_DATA, else ../shared/data beside the checkout."""
    named = os.environ.get("NERFMAC_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real scenes: {folder} is no folder (NERFMAC_DATA names another)")
    return folder
