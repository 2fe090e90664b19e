"""Bundling of ES modules into one module, for pages that cannot load other files. The bundle
contains each module after the modules that it imports, without imports and without `export`, except
in the main module. Modules share one scope, so no two of them may declare the same name."""

import posixpath
import re
from importlib.resources import files

_IMPORT = re.compile(r'^import \{[^}]*\} from "((?:\.{1,2}/)+[\w/-]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class)\b)", re.MULTILINE)


def source_of(name: str) -> str:
    """Return the content of a file in `nerfmac/app/`, such as "viewer/page/main.js"."""
    return (files("nerfmac") / "app" / name).read_text(encoding="utf-8")


def joined_modules(main: str) -> str:
    """Return a bundle of the module `main`, a file in `nerfmac/app/`, and all modules that it
    imports."""
    order: dict[str, str] = {}
    _visit(main, order, ())
    return "\n".join(order.values())


def _visit(name: str, order: dict[str, str], above: tuple[str, ...]) -> None:
    """Add the module `name` to `order`, after the modules that it imports."""
    if name in above:
        raise RuntimeError(f"the page's modules import each other: {' > '.join((*above, name))}")
    if name in order:
        return
    text = source_of(name)
    for imported in _IMPORT.findall(text):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), imported))
        _visit(path, order, (*above, name))
    text = _IMPORT.sub("", text)
    order[name] = text if not above else _EXPORT.sub("", text)
