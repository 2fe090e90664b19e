"""The examples in docstrings run, and give the documented results."""

import ast
import doctest
from contextlib import chdir
from pathlib import Path

import mlx.core as mx
import pytest

import nerfmac
import nerfmac.app.export
import nerfmac.app.video

PACKAGE = Path(nerfmac.__file__).parent

pytestmark = pytest.mark.usefixtures("on_the_cpu")


def examples(package: Path) -> dict[str, doctest.DocTest]:
    """The examples in the docstrings of `package`, by the names of functions and classes."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            inner = node.body if isinstance(node, ast.ClassDef) else []
            for part in (node, *inner):
                if not isinstance(part, ast.ClassDef | ast.FunctionDef):
                    continue
                name = part.name if part is node else f"{node.name}.{part.name}"
                parser, text = doctest.DocTestParser(), ast.get_docstring(part) or ""
                test = parser.get_doctest(text, {}, name, str(path), part.lineno)
                if test.examples:
                    found[name] = test
    return found


FOUND = examples(PACKAGE)


@pytest.fixture(scope="module")
def known():
    """Return names that examples may use without an import: the first lines in README."""
    scene = nerfmac.load_scene(nerfmac.builtin_scene_path(), downscale=2, max_images=4)
    run = nerfmac.train(scene, "tiny", nerfmac.Goal(steps=200), progress=False)
    return {"nerfmac": nerfmac, "mx": mx, "scene": scene, "run": run}


@pytest.mark.parametrize("name", sorted(FOUND))
def test_an_example_runs_and_gives_what_it_says(name, known, tmp_path):
    test, said = FOUND[name], []
    test.globs = dict(known)
    with chdir(tmp_path):
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append)
    assert not said, "".join(said)
