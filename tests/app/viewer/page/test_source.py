"""The joined page is one module that holds every module once, in an order that works."""

import re
from collections import Counter
from pathlib import Path

from nerfmac.app import viewer
from nerfmac.common.page_modules import joined_modules

PAGE = Path(viewer.__file__).parent / "page"
MODULES = sorted(PAGE.rglob("*.js"))
TOP_LEVEL = re.compile(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", re.MULTILINE)


def test_every_module_is_in_it_once_and_after_what_it_imports():
    script = joined_modules(lambda name: (PAGE / name).read_text(), "main.js")
    assert not re.search(r"^import ", script, re.MULTILINE)
    assert re.findall(r"^export .*", script, re.MULTILINE) == ["export default { render };"]
    places = {}
    for path in MODULES:
        declared = TOP_LEVEL.search(path.read_text())[0].removeprefix("export ")
        assert len(re.findall(rf"^{declared}\b", script, re.MULTILINE)) == 1, path.name
        places[path] = script.index(declared)
    for path in MODULES:
        for name in re.findall(r'from "(.+\.js)"', path.read_text()):
            imported = (path.parent / name).resolve()
            assert places[imported] < places[path], f"{path.name} before {imported.name}"


def test_no_two_modules_use_one_name():
    names = Counter(name for path in MODULES for name in TOP_LEVEL.findall(path.read_text()))
    assert [name for name, count in names.items() if count > 1] == []
