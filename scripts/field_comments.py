"""Griffe extension for the site (mkdocs.yml) that uses comments of fields as their documentation.

A field of a dataclass or of a named tuple is documented by a docstring or by a comment in its line.
Griffe reads only docstrings, and the site omits fields without one.
"""

from __future__ import annotations

import ast
import io
import linecache
import tokenize
from typing import Any

import griffe


class FieldComments(griffe.Extension):
    """Uses the comment in the last line of a field as its docstring, if the field has none."""

    def on_attribute_instance(
        self, *, node: ast.AST | griffe.ObjectNode, attr: griffe.Attribute, **_: Any
    ) -> None:
        """Add the docstring to an attribute that Griffe has read."""
        is_field = isinstance(node, ast.AnnAssign) and attr.parent and attr.parent.is_class
        if is_field and attr.docstring is None:
            text = comment_of(linecache.getline(str(attr.filepath), attr.endlineno or 0))
            attr.docstring = griffe.Docstring(sentence(text), parent=attr) if text else None


def comment_of(line: str) -> str:
    """Return the comment at the end of a line of code. If the line has no comment, return ""."""
    try:
        tokens = [*tokenize.generate_tokens(io.StringIO(line.strip()).readline)]
    except tokenize.TokenError:  # the line ends a statement that begins in an earlier line
        return ""
    found = [token.string for token in tokens if token.type == tokenize.COMMENT]
    return found[0].removeprefix("#").strip() if found else ""


def sentence(text: str) -> str:
    """Return `text` with a period and an upper-case first letter, except in a word like sRGB."""
    is_fixed = text.partition(" ")[0] != text.partition(" ")[0].lower()
    return f"{text[:1] if is_fixed else text[:1].upper()}{text[1:].removesuffix('.')}."
