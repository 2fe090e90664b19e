"""Source code of the page: its JavaScript modules, bundled into one as a widget requires, and its
style sheet."""

from functools import cache
from importlib.resources import files

from nerfmac.common.page_modules import joined_modules


@cache
def script() -> str:
    """Return the source code of the bundled module."""
    return joined_modules(_read, "main.js")


def style() -> str:
    """Return the source code of the style sheet."""
    return _read("viewer.css")


def _read(name: str) -> str:
    return (files(__name__) / name).read_text(encoding="utf-8")
