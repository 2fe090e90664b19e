"""Which variant an operation has: by the code, the variable, the cache, or the first."""

import json

import pytest

from nerfmac import InputError
from nerfmac.backend import choose_device, device, using, variant, variants
from nerfmac.backend.variants import (
    VARIANTS,
    is_tuned,
    keep,
    path,
    tuned_for,
    tuning_hint,
    variants_here,
)
from nerfmac.config.presets import PRESETS

GRADIENT = "hash_encode_gradient"
TINY, BASE = PRESETS["tiny"], PRESETS["base"]


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch, tmp_path):
    choose_device("cpu")
    monkeypatch.setenv("NERFMAC_CACHE", str(tmp_path / "new" / "cache"))
    monkeypatch.delenv("NERFMAC_VARIANTS", raising=False)
    variants._stored.cache_clear()
    yield
    variants._stored.cache_clear()


def test_without_a_choice_each_operation_has_its_first_variant():
    assert not is_tuned(TINY)
    assert variants_here(TINY) == {name: each.on_cpu[0] for name, each in VARIANTS.items()}
    with device.pretended("cuda"):
        assert VARIANTS["march_count"].here[0] == variant("march_count") == "one"


@pytest.mark.parametrize(
    ("generation", "first"), [(13, "fixed"), (14, "fixed"), (15, "float"), (16, "float")]
)
def test_a_gpu_that_adds_floats_by_a_loop_begins_with_integers(generation, first, monkeypatch):
    with device.pretended("metal", generation):
        assert variant(GRADIENT) == VARIANTS[GRADIENT].here[0] == first
        # A loop that adds floats may never end, so it is not even tried by `nerfmac tune`.
        tried = {"fixed"} if generation < 15 else {"float", "summed", "fixed"}
        assert set(VARIANTS[GRADIENT].here) == tried
        monkeypatch.setenv("NERFMAC_VARIANTS", f"{GRADIENT}=summed")
        assert variant(GRADIENT) == "summed"


def test_the_code_goes_before_the_variable_and_that_before_the_cache(monkeypatch):
    keep(TINY, {"march_count": "two", GRADIENT: "summed"}, {})
    assert is_tuned(TINY)
    with tuned_for(TINY):
        assert (variant("march_count"), variant(GRADIENT)) == ("two", "summed")
        monkeypatch.setenv("NERFMAC_VARIANTS", " march_count = eight ,")
        assert (variant("march_count"), variant(GRADIENT)) == ("eight", "summed")
        with using(march_count="one"):
            with using(hash_encode_gradient="fixed"):
                assert (variant("march_count"), variant(GRADIENT)) == ("one", "fixed")
            assert (variant("march_count"), variant(GRADIENT)) == ("one", "summed")
        assert variant("march_count") == "eight"
    monkeypatch.delenv("NERFMAC_VARIANTS")
    assert variant("march_count") == "four"  # no sizes are known
    with tuned_for(BASE):
        assert variant("march_count") == "four"


def test_tuning_is_suggested_once_on_a_mac_that_is_not_tuned(monkeypatch):
    assert tuning_hint(TINY) is None  # on the CPU
    with device.pretended("metal", 13):
        monkeypatch.setattr(variants, "device_name", lambda: "Apple M1")
        keep(TINY, {}, {})
        variants._stored.cache_clear()
        assert tuning_hint(BASE) is not None
        assert tuning_hint(BASE) is None
        (path(BASE).parent / "tuning-hint-shown").unlink()
        keep(BASE, {"march_count": "two"}, {})
        assert tuning_hint(BASE) is None
        hint = tuning_hint(TINY)
        assert "`nerfmac tune --preset tiny`" in hint
        assert "half a minute" in hint


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("march_cout=two", "march_cout.*hash_encode_gradient, march_count"),
        ("march_count=three", "three.*eight, four, one, two"),
        ("march_count", "march_count.*OPERATION=VARIANT"),
        ("march_count=two;networks_gradient=groups_64", "groups_64.*eight"),
    ],
)
def test_what_the_variable_names_wrongly_is_refused(value, told, monkeypatch):
    monkeypatch.setenv("NERFMAC_VARIANTS", value)
    with pytest.raises(InputError, match=f"NERFMAC_VARIANTS.*{told}"):
        variant(GRADIENT)


@pytest.mark.parametrize("content", ["{", "[]", '{"variants": {"march_count": "nine"}}', "{}"])
def test_a_broken_file_is_as_none(content, caplog):
    keep(TINY, {"march_count": "two"}, {})
    path(TINY).write_text(content)
    variants._stored.cache_clear()
    assert variants_here(TINY)["march_count"] == "four"
    assert str(path(TINY)) in caplog.text


@pytest.mark.parametrize("what", ["device_name", "version", "kernel_source"])
def test_another_chip_another_mlx_and_other_kernels_have_choices_of_their_own(what, monkeypatch):
    keep(TINY, {"march_count": "two"}, {"march_count": {"chosen": "two"}})
    kept = json.loads(path(TINY).read_text())
    assert kept["variants"] == {"march_count": "two"}
    assert kept["measured"] == {"march_count": {"chosen": "two"}}
    monkeypatch.setattr(variants, what, lambda *_: "another")
    variants._digest.cache_clear()
    variants._stored.cache_clear()
    try:
        assert not path(TINY).exists()
        assert not is_tuned(TINY)
        assert variants_here(TINY)["march_count"] == "four"
    finally:
        monkeypatch.undo()
        variants._digest.cache_clear()
