"""The page's modules, joined into the one that a widget may have.

`page/` holds real ES modules, which browsers and Node run as they are. Joined, one after the other
in the order of their imports, they are one module: imports between them go, and so does `export`
before a declaration, except in main.js, which comes last. Their names must differ for that.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_PAGE = files("nerfmac") / "viewer" / "page"
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w-]+\.js)";\n', re.MULTILINE)
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
    """Add module `name` to `order`, after what it imports."""
    if name in above:
        raise RuntimeError(f"the page's modules import each other: {' > '.join((*above, name))}")
    if name in order:
        return
    text = _read(name)
    for imported in _IMPORT.findall(text):
        _visit(imported, order, (*above, name))
    text = _IMPORT.sub("", text)
    order[name] = text if name == "main.js" else _EXPORT.sub("", text)


def _read(name: str) -> str:
    return (_PAGE / name).read_text(encoding="utf-8")
