"""Which variant an operation has: by the code, the variable, or the first."""

import pytest

from nerfmac.backend import VARIANTS, choose_device, device, variant, variants_here

GRADIENT = "hash_encode_gradient"


@pytest.fixture(autouse=True)
def no_variable(monkeypatch):
    choose_device("cpu")
    monkeypatch.delenv("NERFMAC_VARIANTS", raising=False)


def test_without_a_choice_each_operation_has_its_first_variant():
    assert variants_here() == {name: each.on_cpu[0] for name, each in VARIANTS.items()}
    with device.pretended("cuda"):
        assert VARIANTS["march_count"].here[0] == variant("march_count") == "one"


@pytest.mark.parametrize(
    ("generation", "first"), [(13, "fixed"), (14, "fixed"), (15, "float"), (16, "float")]
)
def test_a_gpu_that_adds_floats_by_a_loop_begins_with_integers(generation, first, monkeypatch):
    with device.pretended("metal", generation):
        assert variant(GRADIENT) == VARIANTS[GRADIENT].here[0] == first
        # A loop that adds floats may never end, so it is not even offered.
        offered = {"fixed"} if generation < 15 else {"float", "summed", "fixed"}
        assert set(VARIANTS[GRADIENT].here) == offered
        monkeypatch.setenv("NERFMAC_VARIANTS", f"{GRADIENT}=summed")
        assert variant(GRADIENT) == "summed"
