"""Common fixtures: markers for tests that need a device, the CPU device, and scenes to read."""

import os
import re
import signal
from collections.abc import Generator, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from nerfmac.app.scenes import Scene, load_scene
from nerfmac.backend import choose_device, kernels_disabled, memory
from tests.scene_factory import write_scene

# Started in the background of a shell, the tests and all their processes would ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

pytest.register_assert_rewrite("numerics", "tests.numerics")

ROOT = Path(__file__).resolve().parents[1]
BROWSED = {
    "tests/app/viewer/notebook/": "notebooks",
    "tests/app/viewer/page/": "pages",
    "tests/app/export/scene_page/": "pages",
}
"""By folder, groups of tests that run in one process, with one browser."""
INSTALLS = re.compile(r"scripts/install_\w+\.sh")
IS_DAILY = bool(os.environ.get("NERFMAC_DAILY"))
NEEDS = {
    "daily": (lambda: IS_DAILY, "runs once a day (set NERFMAC_DAILY=1 to run it)"),
    "cuda": (mx.cuda.is_available, "needs an NVIDIA GPU with MLX's CUDA back end"),
    "metal": (mx.metal.is_available, "needs an Apple GPU with MLX's Metal back end"),
}


def daily_but(values: Iterable[Any], *often: Any) -> list[Any]:
    """Return the values as parameters of a test: all but `often` run once a day."""
    return [
        pytest.param(value, marks=[pytest.mark.daily] * (value not in often)) for value in values
    ]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Whole files go to a process, and all files of a group of `BROWSED` to the same process."""
    from xdist.scheduler.loadfile import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            groups = [group for folder, group in BROWSED.items() if file.startswith(folder)]
            return groups[0] if groups else file

    return Scheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests that need an absent device, and run files with long tests first.

    Only one variant of a skipped test is kept, with the number of variants. Each test process runs
    whole files: a long file at the end would keep one process busy after all others are done.
    """
    kept, variants = [], {}
    for item in items:
        absent = [
            marker
            for marker, (is_available, _) in NEEDS.items()
            if item.get_closest_marker(marker) and not is_available()
        ]
        if absent:
            name = getattr(item, "originalname", item.name)
            variants.setdefault((item.path, name, absent[0]), []).append(item)
        else:
            kept.append(item)
    for (_, _, marker), same in variants.items():
        reason = f"{NEEDS[marker][1]} ({len(same)} variants)"
        same[0].add_marker(pytest.mark.skip(reason=reason))
        kept.append(same[0])
        config.hook.pytest_deselected(items=same[1:])
    long = {item.path for item in kept if item.get_closest_marker("slow")}
    items[:] = sorted(kept, key=lambda item: item.path not in long)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport]:
    """Report all tests that are skipped without one program in one line of the summary.

    The summary has a line for each place; so the place is the script that installs the program.
    """
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple):
        *_, reason = report.longrepr
        if script := INSTALLS.search(reason):
            report.longrepr = str(ROOT / script[0]), None, reason
    return report


@pytest.fixture(autouse=True)
def no_memory_limit() -> None:
    """Let each test begin without the memory limit of another."""
    memory._limit = None


@pytest.fixture(scope="session")
def real_scenes() -> Path:
    """Return the folder of real scenes: $NERFMAC_DATA or ../shared/data next to the checkout."""
    named = os.environ.get("NERFMAC_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real scenes: {folder} is no folder (NERFMAC_DATA names another)")
    return folder


@pytest.fixture(scope="module")
def on_the_cpu() -> Iterator[None]:
    """Run the tests of a file on the CPU; restore the device afterwards."""
    device = mx.default_device()
    choose_device("cpu")
    yield
    mx.set_default_device(device)


@pytest.fixture(params=["kernel", "reference"])
def run_by(request: pytest.FixtureRequest, on_the_cpu: None) -> Iterator[str]:
    """Run a test on the CPU by the kernels, and by their references."""
    with kernels_disabled() if request.param == "reference" else nullcontext():
        yield request.param


@pytest.fixture(scope="session")
def balls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scene(tmp_path_factory.mktemp("scenes") / "balls")


@pytest.fixture(scope="session")
def scene(balls: Path) -> Scene:
    return load_scene(balls)
