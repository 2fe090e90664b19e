"""Every variant is in the self-test."""

from importlib import import_module
from pkgutil import iter_modules

import pytest

from nerfmac import ops
from nerfmac.app.measure.selftest import cases
from nerfmac.app.measure.selftest.specializations import specializations
from nerfmac.backend import VARIANTS, Kernel, choose_device
from tests.chosen_cases import function

GRADIENTS = {
    "float": "hash_encode_table_gradient__4_3_",
    "summed": "hash_encode_table_gradient__4_1_",
    "fixed": "hash_encode_table_units__4_3_",
}


@pytest.fixture(params=["", "hash_encode_gradient=fixed,march_count=two"])
def chosen(request, monkeypatch):
    choose_device("cpu")
    monkeypatch.setenv("NERFMAC_VARIANTS", request.param)


@pytest.mark.usefixtures("chosen")
def test_every_variant_is_reachable_as_metal_text():
    names = set(specializations())
    for way, begin in GRADIENTS.items():
        assert any(name.startswith(begin) for name in names), way
    for interleaved in (1, 2, 4):
        assert any(name.startswith(f"march_count__{interleaved}_") for name in names)


def test_every_kernel_of_the_operations_has_metal_text():
    modules = [import_module(f"nerfmac.ops.{each.name}") for each in iter_modules(ops.__path__)]
    values = [value for module in modules for value in vars(module).values()]
    kernels = {each.function for each in values if isinstance(each, Kernel)}
    assert len(kernels) > 30
    assert kernels <= set(map(function, specializations().values()))


@pytest.mark.usefixtures("chosen")
def test_every_variant_has_cases():
    names = [case.name for case in cases()]
    for variants in VARIANTS.values():
        for way in variants.all:
            assert way == "float" or any(name.startswith(f"{way}-") for name in names), way
