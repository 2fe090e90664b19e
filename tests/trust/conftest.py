import pytest

from nerfmac import Goal, Run, resume, train
from nerfmac.backend import watchdog
from tests.scene_factory import CONFIG


@pytest.fixture(scope="module")
def trained(scene, tmp_path_factory):
    """Folder of a run of ten steps."""
    out = tmp_path_factory.mktemp("runs") / "run"
    train(scene, config=CONFIG, goal=Goal(steps=10), out=out, progress=False)
    return out


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(watchdog, "_is_relaxed", False)
    monkeypatch.setattr(watchdog, "PAUSE", 0.0)


@pytest.fixture(scope="package")
def trained_run(scene):
    """A run of 24 steps in memory."""
    run = Run.begin(scene, CONFIG)
    resume(run, Goal(steps=24), progress=False)
    return run
