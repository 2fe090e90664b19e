"""Every variant is in the proof, whatever this machine has chosen."""

import pytest

from nerfmac.app.measure.selftest import cases
from nerfmac.app.measure.selftest.specializations import specializations
from nerfmac.backend import choose_device, variant
from nerfmac.backend.variants import VARIANTS
from nerfmac.ops import hash_encode

GRADIENTS = {
    "float": "hash_encode_table_gradient__4_3_",
    "summed": "hash_encode_table_gradient__4_1_",
    "fixed": "hash_encode_table_units__4_3_",
}


@pytest.fixture(autouse=True, params=["", "hash_encode_gradient=fixed,march_count=two"])
def chosen(request, monkeypatch):
    choose_device("cpu")
    monkeypatch.setenv("NERFMAC_VARIANTS", request.param)


def test_every_variant_is_reachable_as_metal_text():
    names = set(specializations())
    for way, begin in GRADIENTS.items():
        assert any(name.startswith(begin) for name in names), way
    for interleaved in (1, 2, 4):
        assert any(name.startswith(f"march_count__{interleaved}_") for name in names)


def test_every_variant_has_cases():
    names = [case.name for case in cases()]
    for variants in VARIANTS.values():
        for way in variants.all:
            assert way == "float" or any(name.startswith(f"{way}-") for name in names), way


def test_cases_without_a_variants_name_run_the_first(monkeypatch):
    case = next(case for case in cases() if str(case) == "hash_encode-single-inside-3")
    ran = []

    def noted(name):
        ran.append(variant(name))
        return ran[-1]

    monkeypatch.setattr(hash_encode, "variant", noted)
    case.run()
    assert set(ran) == {"float"}
