"""The page's ES modules, joined into the one module that a widget may have, and its style sheet."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from nerfmac.common.page_modules import joined_modules

_PAGE = files("nerfmac") / "app" / "viewer" / "page"


@cache
def script() -> str:
    """The joined module."""
    return joined_modules(_read, "main.js")


@cache
def style() -> str:
    """The style sheet."""
    return _read("viewer.css")


def _read(name: str) -> str:
    return (_PAGE / name).read_text(encoding="utf-8")
