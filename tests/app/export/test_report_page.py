"""The report page and the quality page contain all results, and make no requests."""

import base64
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nerfmac.app.export import evaluate_to_page, report_page, write_report
from nerfmac.app.export.pages import worst
from nerfmac.app.export.report_page import ticks
from nerfmac.app.run import Run
from nerfmac.common.checks import InputError
from nerfmac.config import override
from nerfmac.rendering.evaluation import ViewQuality
from tests.scene_factory import CONFIG, HEIGHT, WIDTH

PROFILE = {
    "device_name": "Some <GPU>",
    "references": {"adam": "NERFMAC_DISABLE_KERNELS=adam"},
    "step": {
        "rays": 77,
        "ms": {"median": 4.0},
        "sum_ms": 3.9,
        "parts": [
            {
                **{"part": "march_write", "stage": "samples", "backend": "cuda"},
                **{"ms": {"median": 1.0}, "dtypes": ["float32"]},
                **{"bytes_per_second": 5e9, "operations_per_second": None},
            }
        ],
    },
}


@pytest.fixture(scope="module")
def page(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "mine"
    run.save(folder)
    metrics = {"psnr_test": 12.5, "psnr_corrected_test": 14.5, "psnr_curve": [1], "test_views": 2}
    metrics |= {"test_measured": "2 test views", "peak_memory_bytes": 7, "background": None}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    halves = np.concatenate([np.full((6, 8, 3), 250, np.uint8), np.zeros((6, 8, 3), np.uint8)], 1)
    Image.fromarray(halves).save(folder / "preview.png")
    (folder / "profile.json").write_text(json.dumps(PROFILE))
    lines = ({"step": n, "seconds": 0.5 * n, "loss": 0.1 / n, "psnr": 9.0 + n} for n in (1, 2, 3))
    (folder / "scalars.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    path = folder / "report.html"
    write_report(run, folder, path, seconds=30.0, progress=False)
    return path.read_text(encoding="utf-8")


def test_the_page_has_every_part(page, run):
    for heading in ("Curves", "Images", "Worst test views", "Measurements", "Profile", "Made by"):
        assert f"<h2>{heading}</h2>" in page
    samples = run.config.march.max_samples
    assert f"<td>--march.max-samples</td><td>{samples}</td><td>preset: " in page
    assert f"<td>--seed</td><td>{run.config.seed}</td><td></td>" in page
    assert "<td>PSNR of test views, dB</td><td>12.5</td>" in page
    name = Path(run.scene.path).name
    assert f"<h1>mine: {name}</h1>" in page
    assert str(Path(run.scene.path).parent) not in page
    start = page[page.index("<h1>") : page.index("<h2>")]
    assert "<strong>PSNR 12.50 dB</strong> on 2 test views" in start
    assert start.count(" dB") == page.count("<strong>") == 1
    assert "<td>MLX</td>" in page
    assert page.count('alt="position ') == 4
    assert "Some &lt;GPU&gt;" in page
    assert "<td>march_write</td><td>1.000</td><td>25.0%</td><td>5.0</td><td>-</td>" in page
    assert "<td>adam runs as reference</td><td>NERFMAC_DISABLE_KERNELS=adam</td>" in page


def test_both_halves_of_the_preview_have_labels(page):
    captions = re.findall(r"<figcaption>([^<]*)</figcaption>", page)
    assert captions[:2] == ["rendering of a test view", "photo of the same view"]
    first, second = re.findall(r'<img alt="[^"]*" src="data:image/jpeg;base64,([^"]*)"', page)[:2]
    for content, level in ((first, 250), (second, 0)):
        with Image.open(io.BytesIO(base64.b64decode(content))) as image:
            assert image.size == (8, 6)
            assert np.abs(np.asarray(image, float) - level).max() < 5


def test_the_curves_are_the_scalars_without_any_library(page):
    curves = re.findall(r'<svg .*?aria-label="([^"]*)".*?</svg>', page)
    assert curves == ["PSNR of training pixels, dB", "loss"]
    first, second = re.findall(r"<svg .*?</svg>", page)
    assert "seconds of training" in first
    for svg, values in ((first, (10.0, 11.0, 12.0)), (second, np.log10([0.1, 0.05, 0.1 / 3]))):
        (line,) = re.findall(r'<polyline points="([^"]*)"', svg)
        x, y = np.array([pair.split(",") for pair in line.split()], float).T
        assert np.diff(x)[0] == pytest.approx(np.diff(x)[1], abs=0.2)
        slopes = np.diff(y) / np.diff(values)
        assert slopes[0] == pytest.approx(slopes[1], rel=0.02)
        assert slopes[0] < 0, "up is larger"
    ticks = [float(text) for text in re.findall(r'text-anchor="end">([^<]*)<', first)]
    assert ticks[0] <= 10.0
    assert ticks[-1] >= 12.0


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.5), (9.0, 12.0), (3.0, 3.0), (-2.0, 0.01), (0.0, 1e6), (1e-7, 3e-7)]
)
def test_ticks_enclose_the_values(low, high):
    marks = ticks(low, high)
    assert marks[0] <= low + 1e-9
    assert marks[-1] >= high - 1e-9
    assert 2 <= len(marks) <= 12
    assert np.allclose(np.diff(marks), marks[1] - marks[0])


@pytest.mark.usefixtures("on_the_cpu")
def test_the_test_cameras_of_a_refined_run_follow_the_training_cameras(scene, tmp_path):
    run = Run.begin(scene, override(CONFIG, refine={"poses": True, "pose_rate": 0.05}))
    run.train(steps=20, progress=False)
    given, own = (views.cameras.poses for views in (scene.views("test"), run.views("test")))
    assert np.abs(np.array(given) - np.array(own)).max() > 1e-3
    write_report(run, tmp_path, tmp_path / "report.html", seconds=30.0, progress=False)
    found = re.findall(
        r'<section id="view-\d+"><h2>(.*?): (.*?) dB', (tmp_path / "report.html").read_text()
    )
    psnr = {view.name: f"{view.psnr:.2f}" for view in run.evaluate("test", progress=False)}
    assert dict(found) == psnr


def test_of_many_views_the_worst_are_kept(run, tmp_path, monkeypatch):
    run.save(tmp_path / "mine")
    monkeypatch.setattr(report_page, "WORST", 1)
    write_report(run, tmp_path / "mine", tmp_path / "a.html", progress=False)
    found = re.findall(r'<section id="view-\d+"><h2>(.*?): ', (tmp_path / "a.html").read_text())
    views = run.evaluate("test", progress=False)
    assert len(views) > 1
    assert found == [min(views, key=lambda view: view.psnr).name]


def test_another_ending_a_broken_profile_and_preview_are_refused(run, tmp_path):
    run.save(tmp_path / "mine")
    with pytest.raises(InputError, match=r"page to '.*a\.pdf'"):
        write_report(run, tmp_path / "mine", tmp_path / "a.pdf", progress=False)
    (tmp_path / "mine" / "profile.json").write_text("{}[")
    with pytest.raises(InputError, match=r"profile\.json, line 1: not valid JSON"):
        write_report(run, tmp_path / "mine", tmp_path / "a.html", progress=False)
    (tmp_path / "mine" / "profile.json").write_text('{"step": 3}')
    with pytest.raises(InputError, match="not written by nerfmac profile"):
        write_report(run, tmp_path / "mine", tmp_path / "a.html", progress=False)
    (tmp_path / "mine" / "profile.json").unlink()
    (tmp_path / "mine" / "preview.png").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"preview\.png is not a readable image"):
        write_report(run, tmp_path / "mine", tmp_path / "a.html", progress=False)
    assert not list(tmp_path.glob("*.html"))


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
    for view in found:
        assert f"{view.name}: {view.psnr:.2f} dB, SSIM {view.ssim:.4f}" in text
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
    for index, camera in enumerate(run.scene.cameras):
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


def test_the_worst_views_are_listed_first_and_lead_to_theirs(quality):
    text, found = quality
    line = re.search(r"Worst views: (.*)</p>", text)[1]
    links = re.findall(r'href="#view-(\d)">(.*?)</a> \((.*?) dB', line)
    least = sorted(found, key=lambda view: view.psnr)[:4]
    assert [name for _, name, _ in links] == [view.name for view in least]
    for number, name, psnr in links:
        assert f'<section id="view-{number}"><h2>{name}: {psnr} dB' in text


def test_the_worst_are_at_most_half_and_at_most_five():
    views = [ViewQuality(f"view {each}", 20.0 + each * 7 % 20, 0.9) for each in range(20)]
    assert [view.psnr for view in worst(views)] == [20.0, 21.0, 22.0, 23.0, 24.0]
    assert len(worst(views[:5])) == 2
    assert worst(views[:1]) == []


def test_another_ending_and_an_absent_folder_are_refused(run, tmp_path):
    with pytest.raises(InputError, match=r"page to '.*a\.pdf': .* must be \.html"):
        evaluate_to_page(run, tmp_path / "a.pdf")
    with pytest.raises(InputError, match="cannot be written: No such file"):
        evaluate_to_page(run, tmp_path / "no" / "a.html")
    assert not list(tmp_path.iterdir())


def test_the_page_asks_for_nothing_and_forbids_it(quality):
    assert "default-src 'none'; img-src data:" in quality[0]
    assert not re.search(r'(src|href)="(?!data:|#)|url\(|<script', quality[0])
