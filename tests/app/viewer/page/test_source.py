"""The joined page is one module that holds every module once, in an order that works."""

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from nerfmac.app.viewer import page as source

PAGE = Path(source.__file__).parent
MODULES = sorted(PAGE.rglob("*.js"))
TOP_LEVEL = re.compile(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", re.MULTILINE)


def test_every_module_is_in_it_once_and_after_what_it_imports():
    script = source.script()
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


@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
def test_the_joined_module_is_in_the_language(tmp_path):
    (tmp_path / "joined.mjs").write_text(source.script())
    done = subprocess.run(
        ["node", "--check", tmp_path / "joined.mjs"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("modules", "joined"),
    [
        (
            {"main.js": 'import { a } from "./in/one.js";\nexport default { render: a };\n',
             "in/one.js": "export function a() {}\n"},
            "function a() {}\n\nexport default { render: a };\n",
        ),
        (
            {"main.js": 'import {\n  a,\n  b,\n} from "./in/one.js";\n'
                        'import { c } from "./two.js";\n',
             "in/one.js": 'import { c } from "../two.js";\nexport const a = c, b = 2;\n',
             "two.js": "export async function c() {}\n"},
            "async function c() {}\n\nconst a = c, b = 2;\n\n",
        ),
    ],
)  # fmt: skip
def test_imports_go_and_what_is_imported_comes_first(monkeypatch, modules, joined):
    monkeypatch.setattr(source, "_read", modules.__getitem__)
    assert source.script.__wrapped__() == joined


def test_modules_that_import_each_other_are_refused(monkeypatch):
    modules = {"main.js": 'import { a } from "./one.js";\n',
               "one.js": 'import { b } from "./main.js";\n'}  # fmt: skip
    monkeypatch.setattr(source, "_read", modules.__getitem__)
    with pytest.raises(RuntimeError, match=r"main.js > one.js > main.js"):
        source.script.__wrapped__()
