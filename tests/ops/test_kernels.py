"""Every kernel, forward and each gradient, equals its reference on every available device.

A GPU runs all of the self-test cases, and a CPU runs the cases in tests/chosen_cases.py. These
cover every value of each template argument, and the argument combinations of the presets `tiny` and
`base`.
"""

import os

import pytest

from nerfmac.app.measure.selftest import compare
from nerfmac.backend import choose_device, compiled_ahead, runs_kernel
from nerfmac.backend.sources import kernels_folder
from tests.chosen_cases import all_cases, chosen

choose_device("cpu")
CASES = all_cases()
RUNS = [
    *(pytest.param("cpu", CASES[name], id=f"cpu-{name}") for name in chosen()),
    *(
        pytest.param(gpu, case, id=f"{gpu}-{name}", marks=getattr(pytest.mark, gpu))
        for gpu in ("cuda", "metal")
        for name, case in CASES.items()
    ),
]


@pytest.fixture(scope="module")
def compiled():
    """Devices for which the kernels of all selected cases are compiled."""
    return set()


@pytest.fixture
def device(request, compiled):
    # Not module-scoped: pytest would set up such a fixture for each case again.
    choose_device(request.param)
    if request.param not in compiled:
        mine = [item for item in request.session.items if item.module is request.module]
        tested = [item.callspec.params for item in mine if hasattr(item, "callspec")]
        here = [each["case"] for each in tested if each["device"] == request.param]
        with compiled_ahead():
            for case in here:
                case.run()
        compiled.add(request.param)
    yield request.param
    choose_device("cpu")


@pytest.mark.parametrize(("device", "case"), RUNS, indirect=["device"])
def test_kernel_equals_its_reference(device, case):
    assert "NERFMAC_DISABLE_KERNELS" not in os.environ, "the comparison would compare nothing"
    assert runs_kernel(case.operation)
    outcomes = compare(case)
    assert outcomes
    for outcome in outcomes:
        assert outcome.passed, (
            f"{outcome.array} is off by {outcome.error:.2e}; expected {case.tolerance:.1e}"
        )


def test_every_kernel_file_has_cases():
    files = {path.stem for path in kernels_folder().glob("*.metal")}
    assert files == {case.operation for case in CASES.values()}
