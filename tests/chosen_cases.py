"""Selection of self-test cases for a CPU, where all cases would take longer than all other tests.

Most cases are specializations: a kernel with its template arguments and array forms. Each of them
is judged (tests/metal/test_judged.py), and on a GPU, `nerfmac selftest` and
tests/ops/test_kernels.py run all of them. On a CPU, as C++ and as Metal in the executor, only the
cases in `chosen` run. The other cases only combine template arguments that have run separately.
"""

from __future__ import annotations

import re
from functools import cache
from math import prod
from unittest import mock

from nerfmac.app.measure.selftest import Case, cases
from nerfmac.app.measure.selftest.specializations import specializations
from nerfmac.backend.metal_text import Launch, recorded
from nerfmac.backend.sources import kernels_folder
from nerfmac.config.presets import PRESETS

_SPECIALIZATION = re.compile(
    r"(?P<function>[a-z_]+?)(?:__(?P<values>\d+(?:_\d+)*))?"
    r"_(?P<arrays>(?:bool|u?int\d+_t|float(?:16_t)?)c?(?:_.*)?)"
)
_FUNCTION = re.compile(r"METAL_FUNC void (\w+)\(\s*uint3 thread_index\b")


def written_functions() -> set[str]:
    """The functions of kernels/*.metal that are launched as kernels."""
    texts = [path.read_text() for path in kernels_folder().glob("*.metal")]
    return {name for text in texts for name in _FUNCTION.findall(text)}


@cache
def all_cases() -> dict[str, Case]:
    return {str(case): case for case in cases()}


def function(launch: Launch) -> str:
    return _specialization(launch.specialization)["function"]


@cache
def launches_of_cases() -> dict[str, list[Launch]]:
    found = {}
    for name, case in all_cases().items():
        with recorded() as launches:
            case.run()
        found[name] = list(launches.values())
    return found


def aspects(launch: Launch) -> set[tuple[str, str, str]]:
    """The value of each template argument of a specialization, and the types of its arrays."""
    parts = _specialization(launch.specialization)
    values = enumerate((parts["values"] or "").split("_"))
    found = {(parts["function"], f"template {i}", value) for i, value in values}
    return found | {(parts["function"], "arrays", parts["arrays"])}


def reached_by(preset: str) -> set[str]:
    """The specializations that a preset, with no option changed, reaches."""
    configurations = "nerfmac.app.measure.selftest.specializations.configurations"
    with mock.patch(configurations, return_value=[PRESETS[preset]]):
        return set(specializations())


@cache
def chosen() -> list[str]:
    """Return the cases to run, in order.

    They are all cases with the template arguments of the preset `tiny`, the narrowest; cases that
    run each specialization of the preset `base` once; and cases that cover every aspect of each
    kernel.
    """
    launches = launches_of_cases()
    tiny, base = {_template(name) for name in reached_by("tiny")}, reached_by("base")
    found, shown = set(), {}
    for case, mine in launches.items():
        names = {launch.specialization for launch in mine}
        shown[case] = set().union(names & base, *map(aspects, mine))
        if {_template(name) for name in names} <= tiny:
            found.add(case)
    wanted = set().union(*shown.values()) - set().union(*(shown[case] for case in found))
    smallest_first = sorted(launches, key=lambda case: sum(map(_written, launches[case])))
    while wanted:  # each launch is a program to compile
        best = max(smallest_first, key=lambda case: len(shown[case] & wanted) / len(launches[case]))
        found.add(best)
        wanted -= shown[best]
    return [case for case in launches if case in found]


def _template(specialization: str) -> tuple[str, str | None]:
    return _specialization(specialization).group("function", "values")


def _specialization(name: str) -> re.Match[str]:
    match = _SPECIALIZATION.fullmatch(name)
    assert match, name
    return match


def _written(launch: Launch) -> int:
    sizes = zip(launch.output_shapes, launch.output_dtypes, strict=True)
    return sum(prod(shape) * dtype.size for shape, dtype in sizes)
