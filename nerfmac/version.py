"""Version of nerfmac, determined from the git tag and commit or from the installed package.

The build also uses this module (`tool.hatch.version` in pyproject.toml). Importing the module does
not compute the version.
"""

import re
import subprocess
from functools import cache
from importlib.metadata import PathDistribution, distributions
from pathlib import Path

UNKNOWN = "0.0.0+unknown"
"""Version of a copy of the source files that is neither a git checkout nor an installed package."""
_ARCHIVED = "$Format:%(describe:tags=true,match=v[0-9]*)|%h$"
"""Placeholder that `git archive` replaces with the output of `git describe` and the commit hash."""
_DESCRIBED = re.compile(
    r"(?:v(?P<tag>[^-]+))?(?:-(?P<since>\d+)-)?(?:g?(?P<commit>[0-9a-f]+))?(?:-(?P<dirty>dirty))?"
)


@cache
def version() -> str:
    """Return the version of the package that contains this file.

    - `0.2.0`: the commit with the tag `v0.2.0`, or a package built from this commit
    - `0.2.0+12.g557ba1e`: 12 commits after the tag, at commit 557ba1e. If tracked files have been
      modified, the suffix `.dirty` is added.
    - `0.0.0+g557ba1e`: a commit with no earlier tag
    - `UNKNOWN`: a copy of the source files that is neither a git checkout nor installed
    """
    return version_of(Path(__file__).parents[1], _ARCHIVED)


def version_of(root: Path, archived: str) -> str:
    """Return the version of nerfmac in the folder `root`.

    `root` is a git checkout, a site-packages folder, or a copy of the source files. `archived` is
    the value of `_ARCHIVED`, either replaced by `git archive` or unchanged.
    """
    if (root / ".git").exists():  # in a worktree, .git is a file
        return _from_description(_describe(root)) or UNKNOWN
    if (root / "PKG-INFO").is_file():  # an unpacked sdist
        return PathDistribution(root).version
    # Search only this folder: another nerfmac may be installed for the same Python.
    for installed in distributions(name="nerfmac", path=[str(root)]):
        return installed.version
    state, _, commit = archived.partition("|")
    return _from_description(state) or _from_description(commit) or UNKNOWN


def _describe(root: Path) -> str:
    """Return the output of `git describe`.

    If git is not installed, or if it refuses to read a checkout that belongs to another user, the
    result is an empty string.
    """
    words = ("describe", "--tags", "--match=v[0-9]*", "--always", "--dirty")
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def _from_description(described: str) -> str | None:
    """Convert `git describe` output, such as `v0.2.0-12-g557ba1e-dirty`, to a PEP 440 version.

    If the output cannot be parsed, return None.
    """
    found = _DESCRIBED.fullmatch(described)
    if not described or not found:
        return None
    commit = found["commit"] and f"g{found['commit']}"
    local = ".".join(filter(None, (found["since"], commit, found["dirty"])))
    return f"{found['tag'] or '0.0.0'}{local and f'+{local}'}"
