"""Every kernel, forward and each gradient, equals its reference on every device there is."""

import os

import pytest

from nerfmac.backend import choose_device, compile_ahead, runs_kernel
from nerfmac.backend.sources import kernels_folder
from nerfmac.selftest import cases, compare

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.cuda),
    pytest.param("metal", marks=pytest.mark.metal),
]


@pytest.fixture(scope="module", params=DEVICES)
def device(request):
    choose_device(request.param)
    mine = [item for item in request.session.items if item.module is request.module]
    tested = [item.callspec.params["case"] for item in mine if hasattr(item, "callspec")]
    compile_ahead(lambda: [case.run() for case in tested])
    yield request.param
    choose_device("cpu")


choose_device("cpu")
CASES = list(cases())


@pytest.mark.parametrize("case", CASES, ids=str)
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
    assert files == {case.operation for case in CASES}
