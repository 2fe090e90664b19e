"""The executor of kernels, whose compiled programs all tests use."""

import platform

import pytest

from tests.metal.execute import Executor
from tests.metal.judge import clang


@pytest.fixture(scope="session")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Executor:
    """Stands in for Metal's GPU."""
    clang()
    if platform.system() != "Linux":
        pytest.skip("executes kernels on Linux only: it needs clang's sanitizers and ELF")
    return Executor(tmp_path_factory.mktemp("executed"))
