"""scripts/judge.py trains scenes with several seeds and sets them beside an earlier run."""

import json
import subprocess
import sys
from pathlib import Path

import judge
import numpy as np
import pytest
from PIL import Image

from nerfmac import InputError, builtin_scene_path
from nerfmac.measure.bench import trials

SCRIPT = Path(judge.__file__)
SCENE = f"{builtin_scene_path()}:max_images=3,downscale=5,name=still"
QUICK = ("--seeds", "2", "--steps", "20", "--preset", "tiny", "--device", "cpu")


def judged(*words):
    command = [sys.executable, SCRIPT, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_two_seeds_are_trained_and_stand_beside_an_earlier_run(tmp_path):
    file, sheets = tmp_path / "now.json", tmp_path / "sheets"
    thin = ("--set", "march.thin_below=0.5")
    done = judged(SCENE, *QUICK, *thin, "--json", file, "--sheets", sheets)
    assert done.returncode == 0, done.stderr
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
        photograph, _, depth = np.split(sheet[: judge.SHEET_WIDTH], 3, axis=1)
        assert photograph.std() > 10
        assert (depth[..., 0] == depth[..., 1]).all()
    low, high = sorted(run["psnr"] for run in runs)
    (line,) = (line for line in done.stdout.splitlines() if " still " in line)
    assert line.split()[:4] == ["object", "still", f"{low:.2f}", "-"]
    assert line.split()[-2:] == [f"{low:.2f}", f"{high:.2f}"]


def run_of(psnr, ssim, *, diverged=False):
    return {"psnr": psnr, "ssim": ssim, "diverged": diverged}


def test_the_table_has_worst_seeds_first_means_by_group_and_figures_before():
    now = {
        "vase": {"group": "object", "runs": [run_of(30.0, 0.9), run_of(28.0, 0.8)]},
        "ball": {"group": "object", "runs": [run_of(20.0, 0.5), run_of(22.0, 0.7)]},
        "yard": {"group": "place", "runs": [run_of(15.0, 0.4, diverged=True)]},
    }
    before = {name: now[name] for name in ("vase", "ball")} | {"gone": now["yard"]}
    _, vase, ball, objects, yard, places = judge.table(now, before)
    assert vase.split()[2:8] == ["28.00", "28.00", "29.00", "29.00", "0.850", "0.850"]
    assert vase.split()[8:] == ["28.00", "30.00"]
    assert ball.split()[8:] == ["20.00", "22.00"]
    assert objects.split()[4:] == ["24.00", "24.00", "25.00", "25.00", "0.725", "0.725"]
    assert yard.split()[2:] == ["15.00", "-", "15.00", "-", "0.400", "-", "15.00", "DIVERGED"]
    assert places.split()[4:] == ["15.00", "-", "15.00", "-", "0.400", "-"]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ("downscal=2", "downscal"),
        ("downscale=two", "two"),
        ("group=garden", "garden"),
        ("downscale", "KEY=VALUE"),
        ("split=none", "test"),
    ],
)
def test_a_wrong_setting_of_a_scene_is_named(settings, named):
    with pytest.raises(InputError, match=named):
        judge.judged(judge.parsed(f"{builtin_scene_path()}:{settings}"))


def test_a_scene_that_is_missing_is_refused_before_anything_is_trained(tmp_path):
    file = tmp_path / "now.json"
    done = judged(SCENE, tmp_path / "nowhere", *QUICK, "--json", file)
    assert done.returncode == 2
    assert "nowhere" in done.stderr
    assert "Traceback" not in done.stderr
    assert not file.exists()


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("train.disparity", "NAME=VALUE"),
        ("train.disparit=0.1", "train.disparit is no setting"),
        ("seed.one=1", "seed.one is no setting"),
        ("train.disparity=-1", "train.disparity is -1"),
        ("train.disparity=much", "much"),
    ],
)
def test_a_wrong_change_is_named(word, named):
    with pytest.raises(InputError, match=named):
        judge.changes([word])


def test_a_change_reaches_the_training(monkeypatch):
    seen = []

    def train(_scene, *, config, **_limits):
        seen.append(config)
        raise InputError("enough")

    monkeypatch.setattr(trials, "train", train)
    scene = trials.trial_scene(trials.parsed(SCENE), {})
    trial = trials.Trial(scene, 3, preset="tiny", device="cpu", changes={"march.thin_below": 0.5})
    with pytest.raises(InputError, match="enough"):
        trials.trained(trial)
    assert (seen[0].seed, seen[0].preset, seen[0].march.thin_below) == (3, "tiny", 0.5)
