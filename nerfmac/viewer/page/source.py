"""Joins the page's ES modules into the one module that a widget may have.

Browsers and Node can run the modules as they are. The joined module has each module after those
that it imports, and main.js last. Imports between modules are removed, and so is `export`, except
in main.js. The joined modules share one scope, so no two may declare the same name.
"""

from __future__ import annotations

import posixpath
import re
from functools import cache
from importlib.resources import files

_PAGE = files("nerfmac") / "viewer" / "page"
_IMPORT = re.compile(r'^import \{[^}]*\} from "(\.{1,2}/[\w/-]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class)\b)", re.MULTILINE)


@cache
def script() -> str:
    """The joined module."""
    order: dict[str, str] = {}
    _visit("main.js", order, ())
    return "\n".join(order.values())


@cache
def style() -> str:
    """The style sheet."""
    return _read("viewer.css")


def _visit(name: str, order: dict[str, str], above: tuple[str, ...]) -> None:
    """Add module `name`, a path in the page's folder, to `order`, after the modules it imports."""
    if name in above:
        raise RuntimeError(f"the page's modules import each other: {' > '.join((*above, name))}")
    if name in order:
        return
    text = _read(name)
    for imported in _IMPORT.findall(text):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), imported))
        _visit(path, order, (*above, name))
    text = _IMPORT.sub("", text)
    order[name] = text if name == "main.js" else _EXPORT.sub("", text)


def _read(name: str) -> str:
    return (_PAGE / name).read_text(encoding="utf-8")
