"""Pages of small runs in headless Chromium, with WebGPU computed by SwiftShader."""

from collections.abc import Callable, Iterator
from pathlib import Path

import mlx.core as mx
import pytest

from nerfmac import Goal, Run, choose_device, resume
from nerfmac.app.export import scene_page
from tests.app.export.scene_page.fields import random_run
from tests.scene_factory import COARSE


@pytest.fixture(scope="package", autouse=True)
def quick_pages() -> Iterator[None]:
    """Pages with small stills, made on the CPU."""
    device = mx.default_device()
    choose_device("cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scene_page, "STILL_SIZES", {"still": (64, 48), "portrait": (36, 72)})
        yield
    mx.set_default_device(device)


@pytest.fixture(scope="package")
def trained(scene) -> Run:
    """Return a run of the two balls that shows them."""
    run = Run.begin(scene, COARSE)
    resume(run, Goal(steps=150), progress=False)
    return run


@pytest.fixture(scope="package")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def open_page(browser, folder) -> Callable:
    """Return a function that writes a run's page and opens it; it returns the tab."""
    from tests.app.export.scene_page.tab import Tab

    def open_one(run: Run, before: str = "", context=None, **options):
        path = folder / "scene.html"
        scene_page.write_scene_page(run, path, **options)
        return Tab(browser, path, before, **(context or {}))

    return open_one


@pytest.fixture(scope="module")
def case_of(scene, open_page) -> Iterator[Callable]:
    """Return a function that gives the run of a case of `fields` and a tab with its page."""
    known = {}

    def case(name: str):
        if name not in known:
            run = random_run(scene, name)
            small = {"viewport": {"width": 8, "height": 8}}
            known[name] = run, open_page(run, context=small, background=(0.2, 0.5, 0.9))
            tab = known[name][1]
            assert tab.shows() == "field"
            tab.run("document.body.nerfmac.flight.screen.close()")  # it has nothing to do for us
        return known[name]

    yield case
    for _, tab in known.values():
        tab.close()
