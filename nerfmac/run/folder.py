"""A run's folder, as far as it can be told without loading the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nerfmac.checks import InputError
from nerfmac.files import read_json
from nerfmac.scenes.record import SceneRecord


def is_run(folder: Path) -> bool:
    """Whether a run was saved in `folder`."""
    return (folder / "config.json").is_file()


def read_record(folder: Path) -> SceneRecord:
    """What the run in `folder` remembers of its scene. Raises `InputError` if it holds no run."""
    if not is_run(folder):
        raise InputError(f"{folder} is not a run: it has no config.json")
    path = folder / "scene.json"
    return SceneRecord.from_json(read_json(path), path)


def same_views(one: SceneRecord, other: SceneRecord) -> bool:
    """Whether both have the same training views, wherever they are kept and which way is up."""
    anywhere = {"path": None, "test_every": None, "up": (0.0, 0.0, 1.0)}
    kept = [replace(each, **anywhere).to_json() for each in (one, other)]
    return kept[0] == kept[1]
