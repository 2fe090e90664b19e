"""The comparison with PyTorch imports only names that nerfmac has; PyTorch is not needed."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
FILES = sorted([SCRIPTS / "compare_torch.py", *(SCRIPTS / "torch_peer").rglob("*.py")])


def missing(source: str) -> list[str]:
    """Return the names that `source` imports from nerfmac, and that nerfmac does not have."""
    found = []
    for node in ast.walk(ast.parse(source)):
        module = node.module if isinstance(node, ast.ImportFrom) else None
        if module and module.partition(".")[0] == "nerfmac":
            known = import_module(module)
            names = [alias.name for alias in node.names if not hasattr(known, alias.name)]
            found += [f"{module}.{name}" for name in names]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_imported_names_exist(path):
    assert missing(path.read_text(encoding="utf-8")) == []
