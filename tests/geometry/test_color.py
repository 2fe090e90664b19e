"""Color: the sRGB curve by its standard, and blending in either light."""

import mlx.core as mx
import numpy as np
import pytest
from numerics import assert_matches

from nerfmac.geometry.color import linear_to_srgb, over, srgb_to_linear

pytestmark = pytest.mark.usefixtures("on_the_cpu")

ROUNDOFF = 2.0**-24
# Encoded and linear, from IEC 61966-2-1's formula in extended precision.
KNOWN = [(0.0, 0.0), (0.02, 0.0015479876), (0.2, 0.0331047666), (0.5, 0.2140411405),
         (0.7353569831, 0.5), (0.9, 0.7874122893), (1.0, 1.0)]  # fmt: skip


@pytest.mark.parametrize(("encoded", "linear"), KNOWN)
def test_the_curve_has_the_standards_values(encoded, linear):
    assert srgb_to_linear(mx.array(encoded)).item() == pytest.approx(linear, abs=4e-7)
    assert linear_to_srgb(mx.array(linear)).item() == pytest.approx(encoded, abs=4e-7)


def test_encoding_and_decoding_undo_each_other():
    values = mx.array(np.linspace(0.0, 1.0, 1001), mx.float32)
    # Near black the curve's slope is 12.92, and a power's rounding counts a few times over.
    for one, other in ((srgb_to_linear, linear_to_srgb), (linear_to_srgb, srgb_to_linear)):
        error = np.abs(np.array(other(one(values)) - values))
        # The two pieces of the standard agree to one part in ten million.
        assert error.max() < 64 * ROUNDOFF


def test_every_byte_survives_the_way_to_light_and_back():
    levels = np.arange(256)
    back = np.array(linear_to_srgb(srgb_to_linear(mx.array(levels / 255, mx.float32))))
    assert (np.round(back * 255) == levels).all()


@pytest.mark.parametrize("convert", [srgb_to_linear, linear_to_srgb])
def test_a_curve_rises_without_a_jump_and_its_slope_is_finite(convert):
    values = mx.array(np.linspace(0.0, 1.0, 4001), mx.float32)
    rise = np.diff(np.array(convert(values)))
    assert rise.min() > 0
    assert rise.max() < 13 / 4000
    slope = np.array(mx.grad(lambda v: convert(v).sum())(values))
    assert np.isfinite(slope).all()
    assert slope.min() > 0


RGBA = np.array([[0.8, 0.2, 0.4, 0.25], [0.1, 0.9, 0.6, 0.5], [0.3, 0.7, 1.0, 0.9]], np.float32)
BACK = np.array([[0.1, 0.5, 1.0], [0.9, 0.0, 0.3], [0.2, 0.4, 0.6]], np.float32)


def to_light(v):
    return np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)


@pytest.mark.parametrize("blend", ["srgb", "linear"])
def test_alpha_mixes_the_image_and_its_background_in_the_light_named(blend):
    rgb, alpha, back = RGBA[:, :3].astype(np.float64), RGBA[:, 3:], BACK.astype(np.float64)
    want = rgb * alpha + back * (1 - alpha)
    if blend == "linear":
        mixed = to_light(rgb) * alpha + to_light(back) * (1 - alpha)
        want = 1.055 * mixed ** (1 / 2.4) - 0.055
        assert mixed.min() > 0.0031308
    got = over(mx.array(RGBA), mx.array(BACK), blend)
    assert_matches(got, want, rel=32 * ROUNDOFF, name=blend)
    for whole, one in ((0.0, BACK), (1.0, RGBA[:, :3])):
        rgba = np.concatenate([RGBA[:, :3], np.full((3, 1), whole, np.float32)], axis=1)
        got = over(mx.array(rgba), mx.array(BACK), blend)
        assert_matches(got, one, rel=32 * ROUNDOFF, name=blend)
