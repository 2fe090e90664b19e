"""Metal's compiler would take the exact text of every kernel, as far as clang can judge."""

import re
from unittest import mock

import pytest

from nerfmac.app.measure.selftest.specializations import specializations
from nerfmac.config import Config, override
from nerfmac.config.fields import FEATURES, WIDEST_FEATURES, WIDEST_LAYERS
from tests.chosen_cases import launches_of_cases, written_functions
from tests.metal.judge import clang, judge_all

pytestmark = pytest.mark.slow

_CALLED = re.compile(r"\b(\w+)(?:<[\w, ]+>)?\(thread_position_in_grid,")


def _self_test():
    """Specializations in `nerfmac selftest` that no configuration uses."""
    launches = (launch for some in launches_of_cases().values() for launch in some)
    return {launch.specialization: launch for launch in launches}


def _extremes():
    """Extreme combinations of options: the maximum features, widths, and layers."""
    widest = override(Config(), grid={"levels": WIDEST_FEATURES // FEATURES[-1], "features": 8})
    shapes = [(128, 1, WIDEST_LAYERS - 1), (128, WIDEST_LAYERS - 1, 1), (64, 4, 4)]
    names = ("width", "density_layers", "color_layers")
    configs = [override(widest, networks=dict(zip(names, shape, strict=True))) for shape in shapes]
    configurations = "nerfmac.app.measure.selftest.specializations.configurations"
    with mock.patch(configurations, return_value=configs):
        return specializations()


LAUNCHES = {**specializations(), **_self_test(), **_extremes()}


@pytest.fixture(scope="module")
def judged(request):
    """Return the judge's result for the source code of each tested launch."""
    clang()  # in this thread: it may skip the test
    mine = [item for item in request.session.items if item.module is request.module]
    launches = [item.callspec.params["launch"] for item in mine if hasattr(item, "callspec")]
    return judge_all(launch.text for launch in launches)


@pytest.mark.parametrize("launch", LAUNCHES.values(), ids=LAUNCHES)
def test_judged(judged, launch):
    assert [str(complaint) for complaint in judged[launch.text]] == []


def test_every_kernel_is_judged():
    judged = {name for launch in LAUNCHES.values() for name in _CALLED.findall(launch.text)}
    assert judged == written_functions()
