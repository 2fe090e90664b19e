"""Programs that stand in for what only a Mac has, or for what takes long."""

import stat
from pathlib import Path


def write_programs(folder: Path, programs: dict[str, str]) -> Path:
    """Write each program's text to `folder`/bin, executable; returns that folder."""
    (folder / "bin").mkdir(exist_ok=True)
    for name, text in programs.items():
        path = folder / "bin" / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return folder / "bin"
