"""The quality page contains all results, and makes no requests."""

import base64
import io
import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from nerfmac.app.export import evaluate_to_page
from tests.scene_factory import HEIGHT, WIDTH


@pytest.fixture(scope="module")
def quality(run, tmp_path_factory):
    """Return the text of the page and the result of the call."""
    path = tmp_path_factory.mktemp("page") / "views.html"
    found = evaluate_to_page(run, path, "train", "black", progress=False)
    return path.read_text(encoding="utf-8"), found


def images(text):
    """By alternative text, the images (views, h, w, 3) in [0, 1]."""
    shown = {}
    for name, content in re.findall(r'alt="(.*?)" src="data:image/jpeg;base64,(.*?)"', text):
        image = np.asarray(Image.open(io.BytesIO(base64.b64decode(content)))) / 255.0
        shown.setdefault(name, []).append(image)
    return {name: np.stack(each) for name, each in shown.items()}


def test_the_figures_are_those_of_an_evaluation(quality, run):
    text, found = quality
    assert found == run.evaluate("train", "black", progress=False)
    for number, view in enumerate(found):
        title = f"{view.name}: {view.psnr:.2f} dB, SSIM {view.ssim:.4f}"
        assert f'<section id="view-{number}"><h2>{title}' in text
    mean = np.mean([view.psnr for view in found])
    assert f"PSNR {mean:.2f} dB" in text
    assert "8 views, blended over black in sRGB light" in text
    assert f"<h1>train views of {run.source.path.name}</h1>" in text
    assert str(run.source.path.parent) not in text


def test_each_view_has_its_four_images(quality, run, scene):
    shown = images(quality[0])
    assert set(shown) == {"photo", "rendering", "error", "depth"}
    assert {each.shape for each in shown.values()} == {(8, HEIGHT, WIDTH, 3)}
    renderer, black = run.renderer(), (0.0, 0.0, 0.0)
    for index, camera in enumerate(run.scene.cameras("train")):
        truth = scene.views("train").photo(index, black)
        seen = renderer.render(camera, black)
        assert np.abs(shown["photo"][index] - truth).mean() < 0.02
        assert np.abs(shown["rendering"][index] - seen.color).mean() < 0.02
        error = np.abs(truth - seen.color).mean(axis=2)
        brightness = shown["error"][index].mean(axis=2)
        assert np.corrcoef(np.minimum(error, 0.2).ravel(), brightness.ravel())[0, 1] > 0.9
        surely = shown["depth"][index][(seen.opacity > 0.99)]
        assert surely.max(axis=1).min() > 0.1
        assert shown["depth"][index][seen.opacity < 0.01].mean() < 0.1


def test_names_are_shown_as_they_are(run, tmp_path, monkeypatch):
    frames = run.source.splits["test"]
    odd = tuple(replace(frame, name=f"<b>&{frame.name}") for frame in frames)
    monkeypatch.setattr(run, "source", replace(run.source, splits={"test": odd}))
    evaluate_to_page(run, tmp_path / "a.html", progress=False)
    text = (tmp_path / "a.html").read_text()
    assert "&lt;b&gt;&amp;test/r_0" in text
    assert "<b>" not in text


def test_the_page_asks_for_nothing_and_forbids_it(quality):
    assert "default-src 'none'; img-src data:" in quality[0]
    assert not re.search(r'(src|href)="(?!data:|#)|url\(|<script', quality[0])
