"""`save_snapshot`: a run as a snapshot that instant-ngp reads."""

from __future__ import annotations

import logging
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import InputError
from nerfmac.common.files import user_path
from nerfmac.fields.encoded import EncodedField
from nerfmac.fields.encodings import HashGrid
from nerfmac.ops.hash_encode import HashLevels
from nerfmac.ops.networks_shape import MlpShape
from nerfmac.run import Run, placement_of
from nerfmac.sampling.marching import MarchingSampler
from nerfmac.snapshots.container import need_msgpack, write_container
from nerfmac.snapshots.dataset import turn_of, written_box, written_camera, written_dataset
from nerfmac.snapshots.density_grid import RESOLUTION, written_grid
from nerfmac.snapshots.grid import written_growth
from nerfmac.snapshots.networks import written
from nerfmac.snapshots.reading import OURS, VERSION
from nerfmac.snapshots.thinness import Flat, folded

Array = npt.NDArray[np.float32]

OPTIMISER = {
    "otype": "Ema",
    "decay": 0.95,
    "nested": {"otype": "Adam", "learning_rate": 1e-2, "beta2": 0.99, "epsilon": 1e-15},
}
"""What instant-ngp would train further with; the moments are not written."""

log = logging.getLogger("nerfmac")


def save_snapshot(run: Run, path: str | Path) -> None:
    """Write `run`'s averaged parameters, occupancy grid and training cameras to `path`.

    The file is compressed if its name ends in .ingp. Parameters are rounded to half precision.
    A line says how to turn cameras of the scene's files for instant-ngp, whose axes differ.
    Raises `InputError` for a run that instant-ngp has no field for, before anything is written.
    """
    need_msgpack()
    write_container(user_path(path), written_snapshot(run))
    turn = turn_of(placement_of(run))
    if not np.allclose(turn, np.eye(3), atol=1e-6):
        log.info(
            "the snapshot has the run's axes, not those that instant-ngp gives the scene's files: "
            "its first view and its training views are right there; before set_nerf_camera_matrix "
            "or --screenshot_transforms multiply the upper 3 rows of each transform_matrix from "
            "the left by %s; camera paths of other snapshots do not fit",
            np.round(turn, 6).tolist(),
        )


def written_snapshot(run: Run) -> dict[str, Any]:
    """The snapshot's values. Raises `InputError` as `save_snapshot` does."""
    field, sampler, extent = run.trainer.field, run.trainer.sampler, run.scene.extent
    if not isinstance(field, EncodedField) or not isinstance(field.encoding, HashGrid):
        raise InputError(
            "a snapshot holds a hash grid with two networks; the run has another field"
        )
    if not isinstance(sampler, MarchingSampler):
        raise InputError("a snapshot holds an occupancy grid; the run's sampler keeps none")
    if extent < 1.0 or log2(extent) % 1.0:
        raise InputError(
            f"the scene's cube has the side {extent:g}; instant-ngp's is 1, 2, 4, and so on to 128"
        )
    levels, shape = field.encoding.levels, field.networks_shape
    values = {name: np.array(each) for name, each in run.state.average.items()}
    networks = values["density"], shape.density, values["colour"], shape.colour
    flat = Flat(levels, values["table"], *networks)
    if shape.density_bias:
        flat = folded(flat, shape.density_bias)
    growth = written_growth(flat.levels)
    if growth is None:
        raise InputError("instant-ngp's rounding has no grid of the run's levels")
    parts = [written(flat.density, flat.shape), written(flat.colour, shape.colour)]
    config = {
        "loss": {"otype": "Huber"},
        "optimizer": OPTIMISER,
        "encoding": _encoding(flat.levels, flat.table.shape[1], growth),
        "dir_encoding": {"otype": "SphericalHarmonics", "degree": 4},
        "network": _network(flat.shape),
        "rgb_network": _network(shape.colour),
    }
    return {**config, "snapshot": _snapshot(run, sampler, [*parts, flat.table.ravel()])}


def _snapshot(run: Run, sampler: MarchingSampler, parts: list[Array]) -> dict[str, Any]:
    parameters = _halves(np.concatenate(parts))
    placement, scene, geometry = placement_of(run), run.scene, sampler.geometry
    names = [f"view_{number:04}" for number in range(len(scene.cameras))]
    up, box = [float(each) for each in scene.up], written_box(scene.extent)
    placed = placement._replace(extent=scene.extent)
    dataset = written_dataset(scene.cameras, names, up, placed)
    first = {"camera": written_camera(scene.cameras[0])} if scene.cameras else {}
    batch = run.config.march.max_samples
    counts = ("rays_per_batch", "measured_batch_size", "measured_batch_size_before_compaction")
    rgb = dict(zip(counts, (run.config.train.rays, batch, batch), strict=True))
    return {
        "version": VERSION,
        "mode": "nerf",
        "n_params": len(parameters),
        "params_type": "__half",
        "params_binary": parameters.tobytes(),
        "density_grid_size": RESOLUTION,
        "density_grid_binary": written_grid(
            _cells(run), geometry.resolution, geometry.bounds.cascades
        ),
        "nerf": {"aabb_scale": int(scene.extent), "rgb": rgb, "dataset": dataset},
        "training_step": run.state.step,
        "loss": 0.0,
        "aabb": box,
        "bounding_radius": 1.0,
        "render_aabb": box,
        "render_aabb_to_local": np.eye(3).tolist(),
        "up_dir": up,
        **first,
        OURS: {
            "scale": placement.scale,
            "offset": placement.offset.tolist(),
            "rotation": placement.rotation.tolist(),
        },
    }


def _cells(run: Run) -> Array:
    """The grid's values; cells that are not shown have -1, which instant-ngp never shows either."""
    values, bits = (np.array(run.state.sampling[name]) for name in ("values", "bits"))
    is_shown = (bits[:, None] >> np.arange(32, dtype=np.uint32) & 1).ravel().astype(bool)
    # An untrained grid has no values, though cells are shown.
    least = 2.0 * run.config.occupancy.threshold
    kept = np.where(is_shown, np.maximum(values, least), -1.0)
    return kept.astype(np.float32)


def _encoding(levels: HashLevels, features: int, growth: float) -> dict[str, Any]:
    return {
        "otype": "HashGrid",
        "n_levels": levels.levels,
        "n_features_per_level": features,
        "log2_hashmap_size": levels.log2_entries,
        "base_resolution": levels.coarsest,
        "per_level_scale": growth,
    }


def _network(shape: MlpShape) -> dict[str, Any]:
    return {
        "otype": "FullyFusedMLP",
        "activation": "ReLU",
        "output_activation": "None",
        "n_neurons": shape.hidden,
        "n_hidden_layers": shape.hidden_layers,
    }


def _halves(values: Array) -> npt.NDArray[np.float16]:
    limit = float(np.finfo(np.float16).max)
    if not (np.abs(values) < limit).all():
        raise InputError(f"a parameter is not finite or beyond half precision, {limit:g}")
    return values.astype("<f2")
