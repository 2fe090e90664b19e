"""What a run's folder says without loading the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from nerfmac.common.checks import InputError
from nerfmac.common.files import read_json
from nerfmac.scenes import holds_scene
from nerfmac.scenes.options import SceneOptions
from nerfmac.scenes.record import SceneRecord
from nerfmac.scenes.record import is_run as is_run


def read_record(folder: Path) -> SceneRecord:
    """The scene's record in the run's `folder`. Raises `InputError` if `folder` holds no run."""
    if not is_run(folder) and folder.is_dir() and holds_scene(folder):
        raise InputError(
            f"{folder} is a scene, not a run; `nerfmac train {folder} --out RUN` makes a run of it"
        )
    if not is_run(folder):
        raise InputError(f"{folder} is not a run: it has no config.json")
    path = folder / "scene.json"
    return SceneRecord.from_json(read_json(path), path)


def same_views(one: SceneRecord, other: SceneRecord) -> bool:
    """Whether both have the same training views.

    Paths, up, placement and options may differ, but for masks.
    """

    def views(record: SceneRecord) -> dict[str, Any]:
        options = SceneOptions(masks=record.options.masks)
        alike = replace(record, path=None, up=(0.0, 0.0, 1.0), placement=None)
        return replace(alike, options=options).to_json()

    return views(one) == views(other)
