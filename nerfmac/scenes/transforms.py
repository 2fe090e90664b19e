"""The `transforms.json` of instant-ngp and of nerfstudio: one file for all frames of a capture.

The lens is in pixels of a `w` x `h` picture, and each frame may override any of its values. Frames
whose picture is absent are left out, because published captures, such as instant-ngp's fox, name
pictures that they do not contain.
"""

from __future__ import annotations

from pathlib import Path

from nerfmac.json_reader import Fields, read_fields
from nerfmac.scenes.frames import entries_of, shots_of
from nerfmac.scenes.picture_search import PictureSearch
from nerfmac.scenes.placement import fit, is_placed, placement_of
from nerfmac.scenes.scene import Frame, Scene
from nerfmac.scenes.shots import headers_of
from nerfmac.scenes.splits import Splits, hold_out, hold_out_some, listed, lists_splits
from nerfmac.scenes.upright import up_of

FILE_NAME = "transforms.json"


def read_transforms(path: Path, test_every: int | None = None) -> Scene:
    """The scene in the file `path`, its frames sorted by name; see `load_scene` for InputError.

    By default the splits are the file's lists. Without lists every 8th view is held out as "test",
    or none if there is only one view.
    """
    file = read_fields(path)
    entries, absent = entries_of(file, PictureSearch(path.parent))
    entries.sort(key=lambda entry: entry.name)
    headers = headers_of([entry.picture for entry in entries])
    has_alpha = any(header.has_alpha for header in headers)
    shots = shots_of(entries, headers)
    poses = [shot.pose for shot in shots]
    placed = is_placed(file)
    placement = placement_of(file) if placed else fit(poses, has_alpha, str(path))
    frames = tuple(shot.placed(placement) for shot in shots)
    splits = _splits_of(file, frames, absent, test_every)
    name, up = path.resolve().parent.name, up_of(file, poses)
    return Scene(name, placement.extent, splits, up, has_alpha=has_alpha)


def _splits_of(
    file: Fields, frames: tuple[Frame, ...], absent: list[Fields], test_every: int | None
) -> Splits:
    if not lists_splits(file):
        return hold_out_some(frames, test_every, file.where)
    names = [Path(fields.text("file_path")).as_posix() for fields in absent]
    splits = listed(file, frames, names)
    if test_every is not None:
        splits.pop("test", None)
        splits |= hold_out(splits["train"], test_every, file.where)
    return splits
