"""Source code of the page: its ES modules, bundled into one module as a widget requires, and its
style sheet."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from nerfmac.common.page_modules import joined_modules

_PAGE = files("nerfmac") / "app" / "viewer" / "page"


@cache
def script() -> str:
    """Return the source code of the bundled module."""
    return joined_modules(_read, "main.js")


@cache
def style() -> str:
    """Return the source code of the style sheet."""
    return _read("viewer.css")


def _read(name: str) -> str:
    return (_PAGE / name).read_text(encoding="utf-8")
