"""The executor of kernels. All tests share its compiled programs."""

import os
import platform

import pytest

from tests.metal.execute import Executor
from tests.metal.judge import clang


@pytest.fixture(scope="session")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Executor:
    """Replacement for a Metal GPU."""
    clang()
    if platform.system() != "Linux":
        pytest.skip("executes kernels on Linux only: it needs clang's sanitizers and ELF")
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # one for the processes that share the tests
        folder = folder.parent
    folder = folder / "executed"
    folder.mkdir(exist_ok=True)
    return Executor(folder)
