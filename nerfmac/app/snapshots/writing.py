"""`save_snapshot`: a run as a snapshot that instant-ngp reads.

nerfmac may subtract a constant (`density_bias`) from the logarithm of the density; instant-ngp's
networks have no biases that could. So levels with 16 features are added to the grid. In the first
of them the first feature is 1 everywhere, and so is its interpolation; the others are 0. One more
neuron in each hidden layer passes the 1 on, and the last layer subtracts the constant, exactly in
half precision. The colour network reads that logarithm too. It gets the constant back from the
first spherical harmonic, which is the same for all directions, up to the weights' rounding.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from math import log2, pi, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.app.run import Run, placement_of
from nerfmac.app.snapshots.container import need_msgpack, write_container
from nerfmac.app.snapshots.dataset import turn_of, written_box, written_camera, written_dataset
from nerfmac.app.snapshots.density_grid import RESOLUTION, written_grid
from nerfmac.app.snapshots.field import Array, written_growth, written_weights
from nerfmac.app.snapshots.reading import OURS, VERSION
from nerfmac.common.checks import InputError
from nerfmac.common.files import user_path
from nerfmac.common.halves import to_halves
from nerfmac.config.fields import WIDTHS
from nerfmac.fields.encoded import EncodedField
from nerfmac.fields.encodings import HashGrid
from nerfmac.ops.hash_encode import HashLevels
from nerfmac.ops.networks_shape import EMBEDDING, MlpShape
from nerfmac.sampling.marching import MarchingSampler

OPTIMISER = {
    "otype": "Ema",
    "decay": 0.95,
    "nested": {"otype": "Adam", "learning_rate": 1e-2, "beta2": 0.99, "epsilon": 1e-15},
}
"""Optimiser that instant-ngp would use to continue training; its moments are not written."""
FIRST_HARMONIC = 0.5 / sqrt(pi)
ADDED_FEATURES = 16
"""Features of the levels that carry the constant 1."""

log = logging.getLogger("nerfmac")


class FieldArrays(NamedTuple):
    """A grid with the density network that reads it, and the colour network."""

    levels: HashLevels
    table: Array  # (entries, features)
    density: Array  # flat weights
    shape: MlpShape  # of the density network
    colour: Array  # flat weights
    colour_shape: MlpShape


def save_snapshot(run: Run, path: str | Path) -> None:
    """Write the averaged parameters, occupancy grid and training cameras of `run` to `path`.

    The file is compressed if its name ends in .ingp. Parameters are rounded to half precision. A
    line in the log says how to turn cameras of the scene's files for instant-ngp, whose axes
    differ. Raises `InputError`, before writing, for a run that instant-ngp has no field for.
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
    shape = field.networks_shape
    table, density, colour = (
        np.array(run.state.average[name]) for name in ("table", "density", "colour")
    )
    arrays = FieldArrays(field.encoding.levels, table, density, shape.density, colour, shape.colour)
    if shape.density_bias:
        arrays = _with_density_bias(arrays, shape.density_bias)
    growth = written_growth(arrays.levels)
    if growth is None:
        raise InputError("instant-ngp's rounding has no grid of the run's levels")
    parameters = [
        written_weights(arrays.density, arrays.shape),
        written_weights(arrays.colour, arrays.colour_shape),
        arrays.table.ravel(),
    ]
    return {
        "loss": {"otype": "Huber"},
        "optimizer": OPTIMISER,
        "encoding": {
            "otype": "HashGrid",
            "n_levels": arrays.levels.levels,
            "n_features_per_level": arrays.table.shape[1],
            "log2_hashmap_size": arrays.levels.log2_entries,
            "base_resolution": arrays.levels.coarsest,
            "per_level_scale": growth,
        },
        "dir_encoding": {"otype": "SphericalHarmonics", "degree": 4},
        "network": _network(arrays.shape),
        "rgb_network": _network(arrays.colour_shape),
        "snapshot": _snapshot(run, sampler, to_halves(np.concatenate(parameters))),
    }


def _snapshot(
    run: Run, sampler: MarchingSampler, parameters: npt.NDArray[np.float16]
) -> dict[str, Any]:
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


def _with_density_bias(arrays: FieldArrays, density_bias: float) -> FieldArrays:
    """The same field with levels and neurons that subtract `density_bias`. Raises `InputError`."""
    shape, features = arrays.shape, arrays.table.shape[1]
    wider = [width for width in WIDTHS if width > shape.hidden]
    if not wider:
        raise InputError(
            f"networks.density_bias is {density_bias:g} and its networks have no wider ones in "
            "instant-ngp"
        )
    count = arrays.levels.levels
    levels: HashLevels = replace(arrays.levels, levels=count + ADDED_FEATURES // features)
    table = np.zeros((levels.entries, features), np.float32)
    table[: len(arrays.table)] = arrays.table
    first, entries = levels.shapes[count][1:]
    table[first : first + entries, 0] = 1.0
    larger = MlpShape(shape.inputs + ADDED_FEATURES, wider[0], shape.hidden_layers, shape.outputs)
    matrices: list[Array] = []
    start, source = 0, shape.inputs  # the row that holds the 1
    for (rows, columns), size in zip(shape.matrices, larger.matrices, strict=True):
        matrix = np.zeros(size, np.float32)
        weights = arrays.density[start : start + rows * columns]
        matrix[:rows, :columns] = weights.reshape(rows, columns)
        is_last = len(matrices) == shape.hidden_layers
        matrix[source, 0 if is_last else shape.hidden] += -density_bias if is_last else 1.0
        matrices.append(matrix.ravel())
        start, source = start + rows * columns, shape.hidden
    rows, columns = arrays.colour_shape.matrices[0]
    colour = arrays.colour.copy()
    first_layer = colour[: rows * columns].reshape(rows, columns)
    first_layer[EMBEDDING] += density_bias / FIRST_HARMONIC * first_layer[0]
    return FieldArrays(levels, table, np.concatenate(matrices), larger, colour, arrays.colour_shape)


def _cells(run: Run) -> Array:
    """The grid's values, with -1 in empty cells, which instant-ngp never shows."""
    values, bits = (np.array(run.state.sampling[key]) for key in ("values", "bits"))
    is_occupied = (bits[:, None] >> np.arange(32, dtype=np.uint32) & 1).ravel().astype(bool)
    # Cells of an untrained grid are occupied although their values are 0.
    least = 2.0 * run.config.occupancy.threshold
    kept = np.where(is_occupied, np.maximum(values, least), -1.0)
    return kept.astype(np.float32)


def _network(shape: MlpShape) -> dict[str, Any]:
    return {
        "otype": "FullyFusedMLP",
        "activation": "ReLU",
        "output_activation": "None",
        "n_neurons": shape.hidden,
        "n_hidden_layers": shape.hidden_layers,
    }
