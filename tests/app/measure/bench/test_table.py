"""A paper's table: means, spreads and the protocol, in three formats."""

import json

import pytest

from nerfmac.app.measure.bench.table import ResultTable

ABOUT = {"nerfmac_version": "1.2.3", "device_name": "a chip"}


def run(seed, psnr, ssim, *, diverged=False, lpips=None, options=None):
    protocol = {"train_views": 100, "size": [800, 600], "held_out": "one view in 8"}
    protocol |= {"background": "black", "blend": "srgb"}
    values = {"seed": seed, "psnr": psnr, "ssim": ssim, "steps": 1000, "seconds": 2.0 + seed}
    values |= {"lpips": lpips} if lpips else {}
    values |= {"diverged": diverged, "preset": "small", "test_views": 25}
    return {**values, "options": options or {}, "protocol": protocol}


LEGO = [run(0, 30.0, 0.95), run(1, 32.0, 0.97), run(2, 34.0, 0.93)]
FOX = [run(0, 20.0, 0.7), run(1, 21.0, 0.8), run(2, 28.0, 0.6, diverged=True)]


def test_a_row_has_means_and_sample_deviations_and_the_last_one_those_over_scenes():
    markdown = list(ResultTable({"lego": LEGO, "fox": FOX}, ABOUT).markdown())
    assert markdown[:5] == [
        "| scene | PSNR, dB | SSIM | steps | training, s | test views |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        "| lego | 32.00 ± 2.00 | 0.9500 ± 0.0200 | 1000 | 3.0 | 25 |",
        "| fox | 23.00 ± 4.36 | 0.7000 ± 0.1000 | 1000 | 3.0 | 25 |",
        # Seeds' means over scenes: 25, 26.5 and 31 dB; 0.825, 0.885 and 0.765.
        "| mean of 2 | 27.50 ± 3.12 | 0.8250 ± 0.0600 | 1000 | 3.0 |  |",
    ]


def test_one_seed_has_no_spread_and_one_scene_no_row_of_means():
    table = ResultTable({"lego": LEGO[:1]}, ABOUT)
    assert list(table.markdown())[2:4] == ["| lego | 30.00 | 0.9500 | 1000 | 2.0 | 25 |", ""]
    assert "±" not in "".join(table.markdown()) + "".join(table.latex())


def test_the_notes_say_what_the_figures_depend_on():
    options = {"downscale": 2, "max_images": 30}
    fox = [{**values, "options": options} for values in FOX]
    notes = list(ResultTable({"lego": LEGO, "fox": fox}, ABOUT).notes())
    for named in ("1.2.3 on a chip", "preset small", "seeds 0, 1, 2", "sample standard deviation"):
        assert named in notes[0]
    assert "mean of the PSNRs of all test views" in notes[1]
    assert "over black, alpha blended in srgb" in notes[1]
    assert "leaves out reading pictures, compiling kernels and evaluation" in notes[2]
    assert notes[3].startswith("lego: 100 training views, 25 test views of 800x600 pixels")
    assert notes[4].endswith("held out: one view in 8; read with downscale=2, max_images=30.")
    assert notes[5].startswith("fox diverged with seed 2")


def test_perceptual_distances_have_a_column_if_they_were_measured():
    lpips = [run(seed, 30.0, 0.9, lpips=0.1 * (seed + 1)) for seed in range(2)]
    table = ResultTable({"lego": lpips}, ABOUT)
    assert table.heading[:4] == ["scene", "PSNR, dB", "SSIM", "LPIPS"]
    assert "| 0.1500 ± 0.0707 |" in list(table.markdown())[2]


def test_latex_is_whole_and_its_signs_are_written_out():
    lines = list(ResultTable({"a_b&c": LEGO, "50%": FOX}, ABOUT).latex())
    comments = [line for line in lines if line.startswith("% ")]
    body = lines[len(comments) :]
    assert (body[0], body[-1]) == (r"\begin{tabular}{lrrrrr}", r"\end{tabular}")
    assert body[4].startswith(r"a\_b\&c & 32.00 $\pm$ 2.00 & ")
    assert body[5].startswith(r"50\% & ")
    rows = [line for line in body if line.endswith(r"\\")]
    assert {line.replace(r"\&", "").count("&") for line in rows} == {5}
    assert len(rows) == 4


def test_json_holds_statistics_and_every_run():
    values = json.loads(json.dumps(ResultTable({"lego": LEGO, "fox": FOX}, ABOUT).to_json()))
    assert values["rows"]["lego"]["psnr"] == {"mean": 32.0, "spread": 2.0}
    assert values["rows"]["mean of 2"]["psnr"]["mean"] == pytest.approx(27.5)
    assert [run["psnr"] for run in values["runs"]["fox"]] == [20.0, 21.0, 28.0]
    assert values["nerfmac_version"] == "1.2.3"
