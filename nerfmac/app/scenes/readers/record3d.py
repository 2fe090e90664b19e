"""Captures by the phone app Record3D. Poses map camera to world coordinates with OpenGL axes.

An export has a JSON file `metadata` or `metadata.json`, and an image folder. A pose consists of a
quaternion x, y, z, w and a position. `K` is in column-major order for images of size `w` x `h`. The
file name of an image is the index of its pose. Poses without an image are skipped, because phones
write more poses than images.

The folder `depth` of an export contains OpenEXR files with the depth along the optical axis in
meters. An archive (.r3d) is a ZIP file with the same metadata. Next to each image in its folder
`rgbd`, it contains the depth (.depth, `dw` x `dh` float32 in meters) and the confidence (.conf,
uint8, 0 to 2) as LZFSE data.
"""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from nerfmac.app.scenes.cache import unpacked
from nerfmac.app.scenes.depth_images import SENSOR_RANGE, DepthImage, depth_beside, existing
from nerfmac.app.scenes.images import image_files, inspect_all
from nerfmac.app.scenes.parsed_scene import ParsedScene, PosedImage, pose_of
from nerfmac.common import Fields, InputError, prefix_errors, read_fields
from nerfmac.geometry import Lens

ARCHIVE = ".r3d"  # File extension of an archive.
FOLDERS = ("rgbd", "rgb", "images", "color")
FRAME_INTRINSICS = "perFrameIntrinsicCoeffs"
"""Key in newer files. Its value contains [fl_x, fl_y, cx, cy] for each pose."""
USUAL_SIZE = 192, 256  # Width and height of depth images in files that do not specify them.
PACKED_FILES = re.compile(r"(?i)([^/]+/)?(metadata(\.json)?|rgbd/[^/]+\.(jpe?g|png|depth|conf))")
"""Names of the files in an archive that nerfmac reads. They are in a folder of their own if a user
has unpacked and packed the archive again."""


def metadata_of(folder: Path) -> Path | None:
    """Return the metadata file of the Record3D capture in `folder`, or None."""
    files = filter(Path.is_file, (folder / "metadata", folder / "metadata.json"))
    return next((path for path in files if b'"poses"' in path.read_bytes()), None)


def read_record3d(path: Path) -> ParsedScene:
    """Read the scene of a Record3D metadata file."""
    file = read_fields(path)
    poses = file.rows("poses", 7)
    intrinsics, files = _intrinsics(file, len(poses)), _images(path.parent)
    files = {number: image for number, image in sorted(files.items()) if number < len(poses)}
    if not files:
        raise InputError(
            f"{path} has {len(poses)} poses, but the folders {', '.join(FOLDERS)} in {path.parent} "
            f"contain no image whose name is a number below {len(poses)}"
        )
    images = []
    for number, photo in inspect_all(files).items():
        where = f"{path}, pose {number}"
        if number >= len(intrinsics):
            found = f"{FRAME_INTRINSICS} has only {len(intrinsics)} rows"
            raise InputError(f"{where}: {found}; expected a row per pose")
        width, height = file.count("w", photo.width), file.count("h", photo.height)
        with prefix_errors(where):
            lens = Lens(width, height, *intrinsics[number])
        pose = pose_of(poses[number][4:], poses[number][:4], where)
        name = f"{number:06d}{photo.path.suffix}"  # Zero-padded, so that names sort by number.
        posed = PosedImage.of(photo, where, lens, pose, name)
        images.append(posed._replace(depth=_depth(file, photo.path)))
    return ParsedScene(str(path.parent), path.parent, images)


def read_record3d_archive(path: Path) -> ParsedScene:
    """Read the scene in a Record3D archive (.r3d), which is unpacked to the cache."""
    try:
        folder = unpacked(path, path.stem, partial(_unpack, path))
    except BadZipFile as error:
        raise InputError(f"{path} is not a Record3D archive: {error}; export it again") from error
    folders = (folder, *sorted(filter(Path.is_dir, folder.iterdir())))
    metadata = next(filter(None, map(metadata_of, folders)), None)
    if metadata is None:
        found = f"{path} contains no metadata with poses, so it is not an archive of Record3D"
        raise InputError(f"{found}; pass a file that Record3D has exported as .r3d")
    return read_record3d(metadata)._replace(source=str(path))


def _unpack(path: Path, folder: Path) -> None:
    with ZipFile(path) as archive:
        chosen = [name for name in archive.namelist() if PACKED_FILES.fullmatch(name)]
        archive.extractall(folder, chosen)


def _depth(file: Fields, image: Path) -> DepthImage | None:
    """Return the depth image of a photo, next to it or in the folder `depth` of the capture."""
    if (packed := existing(image.with_suffix(".depth"))) is not None:
        size = file.count("dw", USUAL_SIZE[0]), file.count("dh", USUAL_SIZE[1])
        confidence = image.with_suffix(".conf")
        return DepthImage(packed, 1.0, existing(confidence), farthest=SENSOR_RANGE, size=size)
    return depth_beside(image.parent.parent / "depth", image.stem, farthest=SENSOR_RANGE)


def _images(folder: Path) -> dict[int, Path]:
    """Return the images in the first folder in FOLDERS that contains any, keyed by number."""
    for name in FOLDERS:
        images = image_files(folder / name)
        if found := {int(path.stem): path for path in images if path.stem.isdecimal()}:
            return found
    return {}


def _intrinsics(file: Fields, poses: int) -> Sequence[tuple[float, ...]]:
    """Return fl_x, fl_y, cx, and cy of each of the `poses` poses."""
    if FRAME_INTRINSICS in file:
        return file.rows(FRAME_INTRINSICS, 4)
    fl_x, _, _, _, fl_y, _, cx, cy, _ = file.numbers("K", 9)
    return [(fl_x, fl_y, cx, cy)] * poses
