"""scripts/judge.py trains scenes with several seeds and compares them with an earlier run."""

import json

import judge
import numpy as np
import pytest
from bench_scaling import RankedTraining
from bench_scaling import table as scaling_table
from PIL import Image
from trials import Trial, with_and_without_optimized_cameras

import nerfmac
from nerfmac import InputError, builtin_scene_path, load_scene

SCENE = f"{builtin_scene_path()}:max_images=3,downscale=5,name=still"
QUICK = ("--seeds", "2", "--steps", "20", "--preset", "tiny", "--device", "cpu")


def test_two_seeds_are_trained_and_stand_beside_an_earlier_run(tmp_path, capsys):
    file, sheets = tmp_path / "now.json", tmp_path / "sheets"
    thin = ("--set", "march.thin_below=0.5")
    words = (SCENE, *QUICK, *thin, "--json", file, "--sheets", sheets)
    assert judge.main([str(word) for word in words]) == 0
    values = json.loads(file.read_text())
    runs = values["scenes"]["still"]["runs"]
    assert [(run["seed"], run["steps"], run["diverged"]) for run in runs] == [
        (0, 20, False),
        (1, 20, False),
    ]
    assert len({run["psnr"] for run in runs}) == 2
    assert values["changes"] == {"march.thin_below": 0.5}
    assert all(5.0 < run["psnr"] < 40.0 and 0.0 < run["ssim"] < 1.0 for run in runs)
    for seed in (0, 1):
        sheet = np.array(Image.open(sheets / f"still-seed-{seed}.png"))
        assert sheet.shape == (3 * (judge.SHEET_WIDTH + 2), 3 * judge.SHEET_WIDTH, 3)
        photo, _, depth = np.split(sheet[: judge.SHEET_WIDTH], 3, axis=1)
        assert photo.std() > 10
        assert (depth[..., 0] == depth[..., 1]).all()
    assert all(run["worst_view"] < run["psnr"] and run["start_seconds"] > 0 for run in runs)
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "still" in line)
    assert line.split(" | ")[1] == " ".join(f"{run['psnr']:.2f}" for run in runs)


def test_held_out_cameras_are_measured_as_given_and_optimized_on_their_images():
    scene = judge.judged(judge.parsed(SCENE)).scene
    run = nerfmac.train(
        load_scene(scene.path, **scene.options), steps=20, preset="tiny", progress=False
    )
    found = with_and_without_optimized_cameras(run, Trial(scene, 0, background="black"))
    psnr = run.evaluate("test", "black", progress=False).psnr
    assert found["psnr_given"] == pytest.approx(psnr, abs=1e-3)
    assert abs(found["psnr_optimized"] - psnr) > 1e-4


def run_of(psnr, ssim, *, diverged=False):
    values = {"psnr": psnr, "ssim": ssim, "diverged": diverged, "worst_view": psnr - 1.0}
    return values | {"steps": 100, "seconds": 8.0, "start_seconds": 2.5 + ssim}


def test_the_table_has_all_seeds_means_by_group_and_metrics_of_before():
    now = {
        "vase": {"group": "object", "runs": [run_of(30.0, 0.9), run_of(28.0, 0.8)]},
        "ball": {"group": "object", "runs": [run_of(20.0, 0.5), run_of(22.0, 0.7)]},
        "yard": {"group": "place", "runs": [run_of(15.0, 0.4, diverged=True)]},
    }
    vase = now["vase"]["runs"]
    before = {"vase": {"runs": vase[:1]}, "ball": now["ball"], "gone": now["yard"]}
    head, rule, *lines = judge.table(now, before)
    assert head.startswith("| scene | seeds | psnr | before | worst view | before | ssim |")
    rows = [line.strip("|").split("|") for line in (head, rule, *lines)]
    assert {len(cells) for cells in rows} == {20}
    vase, ball, objects, yard, places = ([cell.strip() for cell in row] for row in rows[2:])
    assert vase[:2] == ["vase, 8 s", "30.00 28.00"]
    assert vase[2:8] == ["29.00", "30.00", "27.00", "29.00", "0.850", "0.900"]
    assert vase[8:] == [*[""] * 10, "100", "3.3"]
    assert ball[2:8] == ["21.00", "21.00", "19.00", "19.00", "0.600", "0.600"]
    assert objects[:4] == ["mean of 2 objects", "", "25.00", "25.50"]
    assert yard[1:4] == ["15.00 DIVERGED", "15.00", ""]
    assert places[2:4] == ["15.00", ""]


def test_a_scene_has_seconds_seeds_and_a_background_of_its_own():
    scene = judge.judged(judge.parsed(f"{SCENE},seconds=3.5,seeds=2,background=black"))
    assert (scene.seconds, scene.seeds, scene.background) == (3.5, 2, "black")
    plain = judge.judged(judge.parsed(SCENE))
    assert (plain.seconds, plain.seeds, plain.background) == (None, None, "white")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ("downscal=2", "downscal"),
        ("seconds=soon", "seconds is 'soon'"),
        ("downscale", "KEY=VALUE"),
        ("split=none", "test"),
    ],
)
def test_a_wrong_setting_of_a_scene_is_named(settings, named):
    with pytest.raises(InputError, match=named):
        judge.judged(judge.parsed(f"{builtin_scene_path()}:{settings}"))


def training(ranks, rate, points, *, is_alike=True):
    return RankedTraining(ranks, "ring", 96 * ranks, 300, rate, points, is_alike)


def test_a_table_compares_with_one_rank_at_a_quality_that_all_had():
    one = training(1, 1e6, ((1.0, 20.0), (2.0, 25.5)))
    two = training(2, 1.75e6, ((1.0, 24.0), (2.0, 27.0)), is_alike=False)
    assert one.seconds_to(22.75) == pytest.approx(1.5)
    assert (two.seconds_to(27.0), two.seconds_to(27.1)) == (2.0, None)
    head, first, second = scaling_table([one, two])
    assert "to 25 dB" in head
    assert first.split() == ["1", "96", "300", "1e+06", "1.00", "25.50", "dB", "1.91", "s", "yes"]
    assert second.split()[4] == "1.75"
    assert second.split()[-1] == "NO"
