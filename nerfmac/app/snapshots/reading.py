"""`load_snapshot` converts a snapshot of instant-ngp to a run.

A snapshot file is a msgpack object. In an .ingp file, it is compressed with zlib.
"""

import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from nerfmac.app.run import CONFIGURED, Run
from nerfmac.app.scenes import Frame, Scene, load_scene
from nerfmac.app.snapshots.field import read_field, read_parameters
from nerfmac.backend import Arrays
from nerfmac.common import Fields, Float32Array, InputError, Int64Array, log, needed, user_path
from nerfmac.config import Config, override
from nerfmac.config.rendering import Box
from nerfmac.config.scenes import MAX_EXTENT
from nerfmac.geometry import Bounds, Camera, Lens, Placement, cells_of
from nerfmac.ops.loss_scale import LossScale
from nerfmac.ops.march import MarchGeometry
from nerfmac.ops.occupancy_update import pack_bits
from nerfmac.rendering.crop import cropped
from nerfmac.sampling.occupancy import march_geometry
from nerfmac.training.method import Method
from nerfmac.training.model import Model
from nerfmac.training.optimizer import no_moments
from nerfmac.training.resolve import settled
from nerfmac.training.state import TrainState

ENDINGS = (".ingp", ".msgpack")
GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
"""Window bits with which zlib detects from the header whether a stream is gzip or zlib."""
LEAST_LIMIT, LARGEST_LIMIT = 2**28, 2**31
RATIO = 32
"""Maximum ratio of the decompressed size to the file size. A decompressed size of up to
`LEAST_LIMIT` bytes is always accepted. More than `LARGEST_LIMIT` bytes are always refused. The
parameters can hardly be compressed, and an occupancy grid has 32 MiB."""
MOST_VALUES = 2**22
"""Maximum number of values in a file. A camera has about 50, and all parameters count as one."""


def is_snapshot(path: Path) -> bool:
    """Return whether `path` has the file extension of a snapshot."""
    return path.suffix.lower() in ENDINGS


def read_container(path: Path) -> Fields:
    """Read a snapshot file."""
    msgpack = needed("msgpack", "ingp", "snapshots need")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    if path.suffix.lower() == ".ingp":
        data = _inflated(data, path)
    number = 0

    def count(values: Any) -> Any:
        nonlocal number
        number += 1 + len(values)
        if number > MOST_VALUES:
            raise ValueError(f"it contains more than {MOST_VALUES} values")
        return values

    try:
        values = msgpack.unpackb(
            data,
            list_hook=count,
            object_hook=count,
            max_array_len=MOST_VALUES,
            max_map_len=MOST_VALUES,
        )
    except (ValueError, msgpack.exceptions.UnpackException) as error:
        raise InputError(f"{path} is truncated or not a msgpack file: {error}") from error
    return Fields.of(values, str(path))


def _inflated(data: bytes, path: Path) -> bytes:
    """Decompress a zlib or gzip stream."""
    limit = min(max(LEAST_LIMIT, RATIO * len(data)), LARGEST_LIMIT)
    stream = zlib.decompressobj(GZIP_OR_ZLIB)
    try:
        inflated = stream.decompress(data, limit)
    except zlib.error as error:
        raise InputError(f"{path} is truncated or not an .ingp file: {error}") from error
    if stream.eof:
        return inflated
    if len(inflated) < limit:
        raise InputError(f"{path} is truncated: the end of the compressed stream is missing")
    raise InputError(
        f"{path} has {len(data)} bytes that decompress to more than {limit}; expected the field of "
        "one scene; if the snapshot contains the optimizer state, save it without that state"
    )


VERSION = 1  # Oldest snapshot version that is supported. instant-ngp has the same limit.
SMALLEST_EXTENT = 1e-3
"""Minimum side length of the scene cube in scene units. instant-ngp writes 1 or more."""
LARGEST = float(np.finfo(np.float16).max)
"""Largest finite number in half precision. For larger values, instant-ngp writes infinity."""
CYCLE = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
"""Rotation from the axes of the scene files to the axes of instant-ngp."""
FLIP = np.array([1.0, -1.0, -1.0, 1.0])
"""Factors for the columns of a pose that convert OpenGL camera axes to the axes of instant-ngp (y
down, z forward) and back."""
DISTORTION = {True: ("k1", "k2", "k3", "k4"), False: ("k1", "k2", "p1", "p2")}
"""Keys of the distortion coefficients of a fisheye lens (True) and of any other lens (False)."""
OTHER_LENSES = ("ftheta_p0", "latlong", "halflatlong", "equirectangular", "orthographic")


def open_run(path: str | Path, *, method: Method = CONFIGURED) -> Run:
    """Load a run from a run folder or from a snapshot of instant-ngp."""
    path = user_path(path)
    return load_snapshot(path) if is_snapshot(path) else Run.load(path, method=method)


def load_snapshot(path: str | Path, scene: str | Path | None = None) -> Run:
    """Read a snapshot of instant-ngp as a run on the current device. Scene coordinates have the
    axes of instant-ngp.

    Args:
        path: Snapshot file.
        scene: Path of the scene that the snapshot was trained on, required only for evaluation. The
            scene's cameras are transformed to the coordinates of the snapshot.

    Returns:
        Run with the parameters, the cameras, and the occupancy grid of the snapshot.

    Raises:
        InputError: If the file is invalid or uses features that nerfmac does not support.
    """
    file = read_container(user_path(path))
    if "snapshot" not in file:
        raise InputError(f"{path} does not contain a snapshot")
    snapshot = file.object("snapshot")
    extent = _extent(snapshot)
    shape = read_field(file, extent)
    recorded = _scene(snapshot, extent)
    resolution = snapshot.count("density_grid_size", 128)
    bounds = Bounds(extent)
    config = settled(override(shape.config, occupancy={"resolution": resolution}), bounds)
    field = shape.field(bounds)
    parameters = read_parameters(snapshot, shape, field)
    model = Model(config, bounds, recorded.cameras("train"), Method(lambda *_: field))
    geometry = march_geometry(config.march, config.occupancy, bounds)
    state = TrainState(
        parameters,
        parameters,
        no_moments(parameters),
        _sampling(snapshot, config, geometry),
        LossScale.init(config.train.loss_scale)._asdict(),
        mx.array(1.0),
        step=int(snapshot.number("training_step", 0)),
        rays=config.train.rays,
        train_frac=1.0,
    )
    mx.eval(state.arrays())
    run = Run(recorded, model, state, name=user_path(path).stem)
    if scene is not None:
        run.source = _moved_scene(load_scene(scene), run)
    return run


def _extent(snapshot: Fields) -> float:
    """Return the side length of the scene cube in scene units."""
    version = snapshot.number("version", 0)
    if version < VERSION:
        raise InputError(f"{snapshot.where} has version {version:g}; expected {VERSION} or later")
    if "mode" in snapshot and snapshot.text("mode").lower() != "nerf":
        raise snapshot.wrong("mode", "nerf")
    dataset = snapshot.object("nerf").object("dataset")
    refused = {
        "from_mitsuba": "a scene in Mitsuba's axes",
        "is_hdr": "a scene of high dynamic range",
        "has_light_dirs": "a scene with light directions",
        "n_extra_learnable_dims": "a scene with latent codes of its images",
    }
    for key, kind in refused.items():
        if dataset.values.get(key):
            raise InputError(f"{dataset.where} is {kind}, but nerfmac does not support it")
    extent = dataset.number("aabb_scale", above=0)
    if not SMALLEST_EXTENT <= extent <= MAX_EXTENT:
        raise dataset.wrong("aabb_scale", f"{SMALLEST_EXTENT:g} up to {MAX_EXTENT:g}")
    if any(dataset.numbers("envmap_resolution", 2, (0.0, 0.0))):
        log.warning("%s: the environment map is ignored", dataset.where)
    return extent


def _scene(snapshot: Fields, extent: float) -> Scene:
    """Return the scene without images."""
    dataset = snapshot.object("nerf").object("dataset")
    holder, key = (snapshot, "up_dir") if "up_dir" in snapshot else (dataset, "up")
    x, y, z = holder.numbers(key, 3, (0.0, 1.0, 0.0))
    placement, cameras = read_placement(dataset, extent), enumerate(read_cameras(dataset))
    frames = tuple(Frame(camera, name=f"view_{index:04}.png") for index, camera in cameras)
    return Scene("scene", extent, {"train": frames}, (x, y, z), placement=placement)


def _sampling(snapshot: Fields, config: Config, geometry: MarchGeometry) -> Arrays:
    """Return the state of the occupancy grid. Cells outside the box that instant-ngp renders are
    empty."""
    data = snapshot.values.get("density_grid_binary")
    stored = read_grid(data, geometry.resolution, geometry.bounds.cascades, snapshot.where)
    values = mx.ones(geometry.cells) if stored is None else mx.array(stored)
    innermost = mx.maximum(values[: geometry.resolution**3], 0.0)
    threshold = mx.minimum(innermost.mean(), config.occupancy.threshold)
    bits = pack_bits(values, threshold.reshape(1))
    return {
        "values": values,
        "updates_since_visible": mx.zeros(geometry.cells, mx.int32),
        "bits": cropped(bits, geometry, _shown(snapshot, geometry.bounds)),
    }


def _shown(snapshot: Fields, bounds: Bounds) -> Box | None:
    """Return the box of the scene that instant-ngp renders. If this box contains the scene cube, is
    rotated, or is empty, return None."""
    if "render_aabb" not in snapshot:
        return None
    box = snapshot.object("render_aabb")
    low, high = np.array(box.numbers("min", 3)), np.array(box.numbers("max", 3))
    lowest, highest = bounds.corners
    if (low <= lowest).all() and (high >= highest).all():
        return None
    turned = np.eye(3)
    if "render_aabb_to_local" in snapshot:
        turned = np.array(snapshot.table("render_aabb_to_local", (3,), 3))
    if not np.allclose(turned, np.eye(3), atol=1e-5) or (low >= high).any():
        log.warning("%s: render_aabb is rotated or empty and is ignored", snapshot.where)
        return None
    (a, b, c), (d, e, f) = low.tolist(), high.tolist()
    return (a, b, c), (d, e, f)


def _moved_scene(scene: Scene, run: Run) -> Scene:
    """Copy `scene` and transform its cameras to the scene coordinates of `run`."""
    from_files, placement = scene.placement, run.scene.placement

    def moved(camera: Camera) -> Camera:
        pose = np.eye(4)[:3]
        pose[:, :3] = from_files.turned_to_file(camera.pose[:, :3].T).T
        pose[:, 3] = from_files.to_file(camera.pose[:, 3])
        return replace(camera, pose=placement.apply(pose))

    splits = {
        name: tuple(replace(frame, camera=moved(frame.camera)) for frame in frames)
        for name, frames in scene.splits.items()
    }
    scene = replace(scene, splits=splits, extent=run.scene.extent)
    return replace(scene, up=run.scene.up, placement=placement)


def morton_numbers(resolution: int, cascades: int) -> Int64Array:
    """Return the index in instant-ngp's order of each cell (cells,) in nerfmac's order."""
    number = np.arange(cascades * resolution**3)
    cascade, x, y, z = cells_of(number, resolution)
    return cascade * resolution**3 + (_spread(x) | _spread(y) << 1 | _spread(z) << 2)


def read_grid(data: Any, resolution: int, cascades: int, where: str) -> Float32Array | None:
    """Read the values of a density grid, in the order of nerfmac, or None for the empty grid of an
    untrained scene.

    A value is the optical thickness of the shortest marching step. `data` contains float16 or, in
    older files, float32 numbers. The cells of a cascade, with `resolution` cells along an axis, are
    in Morton order: the bits of x, y, and z are interleaved, and the lowest bit is from x. Infinity
    is replaced by the largest float16 number.
    """
    if not isinstance(data, bytes):
        raise InputError(f"{where}: density_grid_binary is missing or not binary data")
    if not data:
        return None
    cells = cascades * resolution**3
    kinds = {2 * cells: "<f2", 4 * cells: "<f4"}
    if len(data) not in kinds:
        raise InputError(
            f"{where}: density_grid_binary has {len(data)} bytes; expected {2 * cells} for "
            f"{cascades} cascades of {resolution}^3 cells"
        )
    values = np.frombuffer(data, kinds[len(data)]).astype(np.float32)
    if not (values > -np.inf).all():  # also False for NaN
        raise InputError(f"{where}: density_grid_binary contains NaN or -infinity")
    values = np.minimum(values, LARGEST)
    return values[morton_numbers(resolution, cascades)]


def _spread(number: Int64Array) -> Int64Array:
    """Return the lowest 10 bits of `number`, moved to every third bit."""
    result = np.zeros_like(number)
    for bit in range(10):
        result |= (number >> bit & 1) << 3 * bit
    return result


def read_cameras(dataset: Fields) -> tuple[Camera, ...]:
    """Return the training cameras of a snapshot's `dataset` in the axes of instant-ngp, which are
    the y, z, and x axes of the scene files. In the snapshot, cameras look along +z, with y down,
    and principal points are fractions of the image size."""
    pairs = zip(dataset.objects("metadata"), dataset.objects("xforms"), strict=False)
    return tuple(_camera(about, xform) for about, xform in pairs)


def read_placement(dataset: Fields, extent: float) -> Placement:
    """Return the placement of the scene files in instant-ngp's scene cube, which has side length
    `extent`. instant-ngp maps a file position p to CYCLE (scale p + offset). If `from_mitsuba` is
    set, CYCLE is omitted, but every OpenGL camera is rotated by 180 degrees about its y axis."""
    scale, offset = dataset.number("scale", above=0), np.array(dataset.numbers("offset", 3))
    return Placement(scale, CYCLE @ offset, extent, CYCLE)


def _camera(about: Fields, xform: Fields) -> Camera:
    pose = np.array(xform.table("start", (3,), 4)) * FLIP
    width, height = (int(side) for side in about.numbers("resolution", 2))
    fl_x, fl_y = about.numbers("focal_length", 2)
    across, down = about.numbers("principal_point", 2, (0.5, 0.5))
    try:
        center = across * width, down * height
        lens = Lens(width, height, fl_x, fl_y, *center, **_distortion(about))
        return Camera(lens, pose.astype(np.float32))
    except InputError as error:
        raise InputError(f"{about.where}: {error}") from error


def _distortion(about: Fields) -> dict[str, Any]:
    """Return the distortion arguments for `Lens`."""
    key = "lens" if "lens" in about else "camera_distortion"
    if key not in about or about.is_null(key):
        return {}
    lens = about.object(key)
    for other in OTHER_LENSES:
        if other in lens:
            raise InputError(f"{lens.where} is {other}; expected perspective or OpenCV fisheye")
    is_fisheye = "is_fisheye" in lens and lens.flag("is_fisheye")
    keys = DISTORTION[is_fisheye]
    return {"is_fisheye": is_fisheye, **{key: lens.number(key, 0.0) for key in keys}}
