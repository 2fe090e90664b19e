"""`joined_modules`: a page's ES modules as one, for pages that may load no files.

Browsers and Node can run the modules as they are. The joined module has each module after those
that it imports, and the main one last. Imports between modules are removed, and so is `export`,
except in the main one. The joined modules share one scope, so no two may declare the same name.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

_IMPORT = re.compile(r'^import \{[^}]*\} from "((?:\.{1,2}/)+[\w/-]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class)\b)", re.MULTILINE)

Read = Callable[[str], str]
"""Function that returns the source code of a module at a path relative to the common folder."""


def joined_modules(read: Read, main: str) -> str:
    """The module `main` with all that it imports. Raises RuntimeError if they form a circle."""
    order: dict[str, str] = {}
    _visit(read, main, order, ())
    return "\n".join(order.values())


def _visit(read: Read, name: str, order: dict[str, str], above: tuple[str, ...]) -> None:
    """Add module `name` to `order`, after the modules it imports."""
    if name in above:
        raise RuntimeError(f"the page's modules import each other: {' > '.join((*above, name))}")
    if name in order:
        return
    text = read(name)
    for imported in _IMPORT.findall(text):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), imported))
        _visit(read, path, order, (*above, name))
    text = _IMPORT.sub("", text)
    order[name] = text if not above else _EXPORT.sub("", text)
