"""instant-ngp's snapshots in plain NumPy: one is made, and its field and images are computed.

Nothing here is nerfmac's: it follows the descriptions of tiny-cuda-nn's HashGrid, FullyFusedMLP and
SphericalHarmonics, and of instant-ngp's snapshot, Morton order and cameras.
"""

import math
import zlib

import msgpack
import numpy as np

GRID = 16  # cells of the density grid along an axis; instant-ngp's own has 128
EXTENT = 2
LOW, HIGH = (5, 6, 4), (11, 9, 12)
"""Range of the occupied cells of the finest cascade (x, y, z); the next cascade is empty."""
POSES = [
    [[-0.8, 0.36, 0.48, 0.1], [0.0, -0.8, 0.6, 0.2], [0.6, 0.48, 0.64, -0.2]],
    [[0.0, 0.0, 1.0, -0.4], [1.0, 0.0, 0.0, 0.55], [0.0, 1.0, 0.0, 0.45]],
]
"""Columns are right, down, forward and place, in instant-ngp's axes."""
SIZE, FOCAL, MIDDLE = (24, 18), (21.0, 23.0), (0.45, 0.6)
SCALE, OFFSET = 0.4, [0.5, 0.3, 0.7]


def halves(random, count, spread) -> np.ndarray:
    return random.uniform(-spread, spread, count).astype(np.float16)


def snapshot(**changes) -> dict:
    """A snapshot with random numbers; `changes` replace parts of the configuration."""
    values = {
        "encoding": {
            "otype": "HashGrid",
            "n_levels": 8,
            "n_features_per_level": 4,
            "log2_hashmap_size": 11,
            "base_resolution": 5,
            "per_level_scale": 1.4,
        },
        "network": mlp(64, 1),
        "rgb_network": mlp(32, 2),
        "dir_encoding": {
            "otype": "Composite",
            "nested": [
                {"otype": "SphericalHarmonics", "degree": 4, "n_dims_to_encode": 3},
                {"otype": "Identity"},
            ],
        },
    } | changes
    parameters = random_parameters(values)
    values["snapshot"] = {
        "version": 1,
        "mode": "nerf",
        "n_params": len(parameters),
        "params_type": "__half",
        "params_binary": parameters.tobytes(),
        "density_grid_size": GRID,
        "density_grid_binary": density_grid().tobytes(),
        "training_step": 350,
        "loss": 0.001,
        "aabb": {"min": [-0.5] * 3, "max": [1.5] * 3},
        "render_aabb": {"min": [-0.5] * 3, "max": [1.5] * 3},
        "render_aabb_to_local": np.eye(3).tolist(),
        "up_dir": [0.0, 0.6, 0.8],
        "nerf": {"aabb_scale": EXTENT, "rgb": {}, "dataset": dataset()},
    }
    return values


def random_parameters(values) -> np.ndarray:
    """In the order of instant-ngp: density network, color network, grid."""
    random = np.random.default_rng(7)
    encoding, network, color = (values[name] for name in ("encoding", "network", "rgb_network"))
    features = encoding["n_levels"] * encoding["n_features_per_level"]
    table = sum(level[1] for level in levels(encoding)) * encoding["n_features_per_level"]
    return np.concatenate(
        [
            halves(random, sum(r * c for r, c in layers(network, features, 16)), 0.7),
            halves(random, sum(r * c for r, c in layers(color, 32, 3)), 0.35),
            halves(random, table, 0.8),
        ]
    )


def mlp(neurons, hidden) -> dict:
    names = {"otype": "FullyFusedMLP", "activation": "ReLU", "output_activation": "None"}
    return {**names, "n_neurons": neurons, "n_hidden_layers": hidden}


def dataset() -> dict:
    about = {"focal_length": FOCAL, "resolution": SIZE, "principal_point": MIDDLE, "lens": None}
    return {
        "n_images": len(POSES),
        "paths": ["a.png", "b.png"],
        "metadata": [about] * len(POSES),
        "xforms": [{"start": pose, "end": pose} for pose in POSES],
        "up": [0.0, 1.0, 0.0],
        "offset": OFFSET,
        "scale": SCALE,
        "aabb_scale": EXTENT,
        "envmap_resolution": [0, 0],
        "from_mitsuba": False,
        "is_hdr": False,
        "n_extra_learnable_dims": 0,
    }


def density_grid() -> np.ndarray:
    grid = np.full(2 * GRID**3, -1.0, np.float16)
    for x in range(LOW[0], HIGH[0]):
        for y in range(LOW[1], HIGH[1]):
            for z in range(LOW[2], HIGH[2]):
                grid[morton(x, y, z)] = 0.5
    return grid


def morton(x, y, z) -> int:
    return sum(
        (place >> bit & 1) << (3 * bit + axis)
        for axis, place in enumerate((x, y, z))
        for bit in range(8)
    )


def write(path, values) -> None:
    data = msgpack.packb(values)
    path.write_bytes(zlib.compress(data) if path.suffix == ".ingp" else data)


def levels(encoding) -> list[tuple[np.float32, int, int]]:
    """Scale, entries and vertices of each level."""
    found = []
    step = np.log2(np.float32(encoding["per_level_scale"]))
    for level in range(encoding["n_levels"]):
        power = np.exp2(np.float32(level) * step)
        scale = power * np.float32(encoding["base_resolution"]) - np.float32(1)
        vertices = math.ceil(scale) + 1
        entries = -(-(vertices**3) // 8) * 8
        if encoding["otype"] == "HashGrid":
            entries = min(entries, 2 ** encoding["log2_hashmap_size"])
        found.append((scale, entries, vertices))
    return found


def layers(network, inputs, outputs) -> list[tuple[int, int]]:
    unit = 8 if network["otype"] == "CutlassMLP" else 16
    widths = [inputs, *[network["n_neurons"]] * network["n_hidden_layers"]]
    widths.append(-(-outputs // unit) * unit)
    return list(zip(widths[1:], widths[:-1], strict=True))


def field(values, position, direction) -> tuple[np.ndarray, np.ndarray]:
    """Density (n,) and sRGB (n, 3) at `position` (n, 3) of the scene, in float64."""
    encoding, saved = values["encoding"], values["snapshot"]
    parameters = np.frombuffer(saved["params_binary"], np.float16).astype(np.float64)
    extent = saved["nerf"]["dataset"]["aabb_scale"]
    features = encoding["n_levels"] * encoding["n_features_per_level"]
    density, rest = taken(parameters, layers(values["network"], features, 16))
    color, table = taken(rest, layers(values["rgb_network"], 32, 3))
    encoded = encode(encoding, table, (position - 0.5) / extent + 0.5)
    embedding = run_mlp(density, encoded)
    rgb = run_mlp(color, np.c_[embedding, harmonics(direction)])[:, :3]
    return np.exp(embedding[:, 0]), 1.0 / (1.0 + np.exp(-rgb))


def taken(parameters, shapes) -> tuple[list[np.ndarray], np.ndarray]:
    matrices = []
    for rows, columns in shapes:
        matrices.append(parameters[: rows * columns].reshape(rows, columns))
        parameters = parameters[rows * columns :]
    return matrices, parameters


def run_mlp(matrices, values) -> np.ndarray:
    for matrix in matrices[:-1]:
        values = np.maximum(values @ matrix.T, 0.0)
    return values @ matrices[-1].T


def encode(encoding, table, position) -> np.ndarray:
    width, parts = encoding["n_features_per_level"], []
    for scale, entries, vertices in levels(encoding):
        rows, table = table[: entries * width].reshape(-1, width), table[entries * width :]
        place = position * float(scale) + 0.5
        lowest = np.floor(place)
        fraction, total = place - lowest, 0.0
        for corner in np.ndindex(2, 2, 2):
            x, y, z = (lowest + corner).astype(np.uint64).T
            index = x + vertices * (y + vertices * z)
            if vertices**3 > entries:
                index = (x ^ (y * 2654435761 % 2**32) ^ (z * 805459861 % 2**32)) % 2**32
            weight = np.where(corner, fraction, 1.0 - fraction).prod(axis=1)
            total = total + weight[:, None] * rows[index.astype(np.int64) % entries]
        parts.append(total)
    return np.concatenate(parts, axis=1)


def harmonics(direction) -> np.ndarray:
    """Orders 0 to 3 from their definition: associated Legendre functions without their sign."""
    x, y, z = direction.T
    angle, columns = np.arctan2(y, x), []
    legendre = {
        (0, 0): 1 + 0 * z,
        (1, 0): z,
        (1, 1): -np.sqrt(1 - z * z),
        (2, 0): (3 * z * z - 1) / 2,
        (2, 1): -3 * z * np.sqrt(1 - z * z),
        (2, 2): 3 * (1 - z * z),
        (3, 0): (5 * z**3 - 3 * z) / 2,
        (3, 1): -1.5 * (5 * z * z - 1) * np.sqrt(1 - z * z),
        (3, 2): 15 * z * (1 - z * z),
        (3, 3): -15 * (1 - z * z) ** 1.5,
    }
    for order in range(4):
        for degree in range(-order, order + 1):
            m = abs(degree)
            ratio = math.factorial(order - m) / math.factorial(order + m)
            norm = math.sqrt((2 * order + 1) / (4 * math.pi) * ratio * (2 if m else 1))
            turn = np.sin(m * angle) if degree < 0 else np.cos(m * angle)
            columns.append(norm * legendre[order, m] * turn)
    return np.stack(columns, axis=1)


def placed(matrix, scale, offset) -> np.ndarray:
    """Where instant-ngp puts an OpenGL camera-to-file matrix (3, 4): (3, 4) as in `POSES`."""
    right, up, back, position = np.array(matrix).T
    x, y, z = np.stack([right, -up, -back, scale * position + offset], axis=1)
    return np.stack([y, z, x])


def rays(index) -> tuple[np.ndarray, np.ndarray]:
    """Origin (3,) and unit directions (h, w, 3) of a camera's pixels, in instant-ngp's axes."""
    pose = np.array(POSES[index])
    column, row = np.meshgrid(np.arange(SIZE[0]) + 0.5, np.arange(SIZE[1]) + 0.5)
    x = (column - MIDDLE[0] * SIZE[0]) / FOCAL[0]
    y = (row - MIDDLE[1] * SIZE[1]) / FOCAL[1]
    direction = np.stack([x, y, np.ones_like(x)], axis=-1) @ pose[:, :3].T
    return pose[:, 3], direction / np.linalg.norm(direction, axis=-1, keepdims=True)


def image(values, index, step=0.002) -> tuple[np.ndarray, np.ndarray]:
    """sRGB (h, w, 3) over white, and opacity (h, w), by small equal steps through all cells."""
    origin, direction = rays(index)
    distance = np.arange(0.1 + step / 2, 2.5, step)
    position = origin + distance[:, None] * direction[..., None, :]
    cell = np.floor(position * GRID)
    inside = ((cell >= LOW) & (cell < HIGH)).all(axis=-1)
    density, color = np.zeros(inside.shape), np.zeros((*inside.shape, 3))
    spread = np.broadcast_to(direction[..., None, :], position.shape)[inside]
    density[inside], color[inside] = field(values, position[inside], spread)
    through = np.exp(-np.cumsum(density * step, axis=-1))
    before = np.concatenate([np.ones((*SIZE[::-1], 1)), through[..., :-1]], axis=-1)
    seen = ((before - through)[..., None] * color).sum(axis=-2)
    return seen + through[..., -1:], 1.0 - through[..., -1]
