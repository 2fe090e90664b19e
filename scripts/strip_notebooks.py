"""Remove outputs, execution counts and metadata that editors add from the notebooks.

    python scripts/strip_notebooks.py [NOTEBOOK ...]

Without arguments, the script strips every notebook in `notebooks`. Notebooks that are already
stripped are not written.
"""

import sys
from pathlib import Path

import nbformat

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
MEANT = ("jupyter", "tags")  # cell metadata to keep, for example to collapse the source
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def stripped(text: str) -> str:
    """Return the notebook `text` with only its cells and its language."""
    notebook = nbformat.reads(text, as_version=4)
    for cell in notebook.cells:
        cell.metadata = {name: cell.metadata[name] for name in MEANT if name in cell.metadata}
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    notebook.metadata = nbformat.from_dict(METADATA)
    return nbformat.writes(notebook) + "\n"


def main(names: list[str]) -> None:
    """Strip the notebooks in `names`. If `names` is empty, strip every notebook in the
    repository."""
    for path in map(Path, names) if names else sorted(NOTEBOOKS.glob("*.ipynb")):
        text = path.read_text(encoding="utf-8")
        if (wanted := stripped(text)) != text:
            path.write_text(wanted, encoding="utf-8")
            print(f"stripped {path.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
