"""PSNR and SSIM against their definitions and against cases solved by hand."""

import math

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.rendering.metrics import color_corrected, psnr, ssim


def random_image(height: int = 45, width: int = 70) -> np.ndarray:
    """Return something without symmetry: smooth, textured, another pattern in each channel."""
    y, x = np.mgrid[:height, :width] / 16.0
    noise = np.random.default_rng(7).normal(scale=0.05, size=(height, width, 3))
    waves = np.stack([np.sin(x + y * y), np.cos(2.3 * x - y), np.sin(x * y)], axis=-1)
    return np.clip(0.5 + 0.35 * waves + noise, 0.0, 1.0)


def ssim_by_definition(image: np.ndarray, target: np.ndarray) -> float:
    """Return SSIM window by window, with centered moments and a window made in two dimensions."""
    offset = np.arange(-5, 6)
    window = np.exp(-(offset[:, None] ** 2 + offset[None, :] ** 2) / (2 * 1.5**2))
    window /= window.sum()
    scores = []
    for channel in range(3):
        for row in range(image.shape[0] - 10):
            for column in range(image.shape[1] - 10):
                place = (slice(row, row + 11), slice(column, column + 11), channel)
                x, y = image[place], target[place]
                mean_x, mean_y = (window * x).sum(), (window * y).sum()
                deviation_x, deviation_y = x - mean_x, y - mean_y
                covariance = (window * deviation_x * deviation_y).sum()
                spread = (window * (deviation_x**2 + deviation_y**2)).sum()
                luminance = (2 * mean_x * mean_y + 1e-4) / (mean_x**2 + mean_y**2 + 1e-4)
                scores.append(luminance * (2 * covariance + 9e-4) / (spread + 9e-4))
    return float(np.mean(scores))


def test_an_image_equals_itself():
    image = random_image()
    assert psnr(image, image) == math.inf
    assert ssim(image, image) == 1.0


@pytest.mark.parametrize(("offset", "decibel"), [(0.1, 20.0), (-0.01, 40.0), (1.0, 0.0)])
def test_psnr_of_a_constant_offset_is_minus_twenty_log_of_it(offset, decibel):
    target = random_image()
    assert psnr(target + offset, target) == pytest.approx(decibel, abs=1e-9)


def test_psnr_weighs_every_value_alike():
    target = np.zeros((20, 30, 3))
    image = target.copy()
    image[4, 7, 2] = 1.0
    assert psnr(image, target) == pytest.approx(10 * math.log10(20 * 30 * 3), abs=1e-9)


# 42 rows contain 32 rows of windows, exactly one band; 43 rows leave one for the next; 11 have one.
@pytest.mark.parametrize("height", [11, 42, 43, 60])
def test_ssim_is_its_definition_at_every_size(height, monkeypatch):
    monkeypatch.setattr("nerfmac.rendering.metrics.BAND", 32 * 29)
    target = random_image(height, 29)
    image = np.clip(target + np.random.default_rng(1).normal(scale=0.1, size=target.shape), 0, 1)
    image[..., 1] *= 0.7
    assert ssim(image, target) == pytest.approx(ssim_by_definition(image, target), abs=1e-9)


def flat(value: float, noise: float = 0.0) -> np.ndarray:
    """Return an image of one value, with noise on it."""
    return value + noise * np.random.default_rng(5).normal(size=(64, 51, 3))


PAIRS = {
    "alike to 60 dB": (random_image() + flat(0.0, 1e-3)[:45, :1], random_image()),
    "noise": (
        random_image() + np.random.default_rng(3).normal(scale=0.1, size=(45, 70, 3)),
        random_image(),
    ),
    "another image": (random_image()[::-1], random_image()),
    "one window": (random_image()[:11, :11], random_image()[5:16, 7:18]),
    "flat": (flat(0.333), flat(0.777)),
    "white on white": (flat(1.0), flat(0.98)),
    "black on white": (flat(0.0), flat(1.0)),
    "grain on white": (flat(1.0, 0.003), flat(1.0)),
    "grain on gray": (flat(0.77, 0.01), flat(0.77)),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
def test_the_device_measures_in_float32_what_the_host_does_in_float64(pair):
    image, target = (np.asarray(each, np.float32) for each in pair)
    on_device = mx.array(image), mx.array(target)
    assert psnr(*on_device) == pytest.approx(psnr(image, target), abs=1e-3)
    assert ssim(*on_device) == pytest.approx(ssim(image, target), abs=5e-5)
    assert psnr(on_device[0], target) == psnr(*on_device)
    assert ssim(image, on_device[1]) == ssim(*on_device)


def fitted_by_numpy(image: np.ndarray, target: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """The image after each channel's line of regression to the target over the `kept` pixels."""
    out = np.empty_like(image)
    for channel in range(3):
        x, y = image[kept][:, channel], target[kept][:, channel]
        gain, offset = np.polyfit(x, y, 1)
        out[..., channel] = np.clip(gain * image[..., channel] + offset, 0.0, 1.0)
    return out


def test_colors_are_corrected_by_each_channels_line_of_regression():
    image, noise = random_image(), np.random.default_rng(3).normal(scale=0.02, size=(45, 70, 3))
    target = np.clip(image[::-1] * 0.2 + image * [0.5, 0.8, 0.3] + [0.1, 0.0, 0.3] + noise, 0, 1)
    for kept in (None, np.arange(45 * 70).reshape(45, 70) % 7 < 3):
        mask = None if kept is None else mx.array(kept)
        both = (mx.array(values.astype(np.float32)) for values in (image, target))
        got = np.array(color_corrected(*both, mask))
        want = fitted_by_numpy(image, target, np.ones((45, 70), bool) if kept is None else kept)
        np.testing.assert_allclose(got, want, atol=1e-5)


def test_correction_undoes_a_gain_and_an_offset_and_leaves_a_plain_image_finite():
    target = mx.array(random_image().astype(np.float32))
    image = 0.1 + 0.5 * target
    assert psnr(color_corrected(image, target), target) > 100.0
    plain = mx.full(target.shape, 0.3)
    mean = mx.broadcast_to(target.mean(axis=(0, 1)), target.shape)
    np.testing.assert_allclose(np.array(color_corrected(plain, target)), np.array(mean), atol=1e-5)
