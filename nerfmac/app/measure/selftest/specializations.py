"""Collection of all kernel specializations that a preset or an option can reach on Metal. A
specialization is a kernel with particular template arguments, input types, and address spaces. MLX
passes arrays with fewer than eight elements in the address space `constant`."""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from itertools import product, zip_longest
from pathlib import Path

import mlx.core as mx

from nerfmac.app.measure.selftest.comparison import Compared
from nerfmac.app.measure.selftest.fields import spherical_harmonics_cases
from nerfmac.app.measure.selftest.losses import penalty_cases, sensor_depth_cases
from nerfmac.backend import VARIANTS, using
from nerfmac.backend.metal_text import Launch, recorded
from nerfmac.common import appearing, check_free, make_folder
from nerfmac.config import FEATURES, PRESETS, WIDEST_FEATURES, WIDTHS, Config, override
from nerfmac.geometry import Bounds, Camera, Cameras, Lens, Views
from nerfmac.training.model import Model
from nerfmac.training.state import TrainState
from nerfmac.training.trainer import Trainer
from nerfmac.version import version as nerfmac_version

OBJECT = Bounds(1.0)  # Scene cube of a scene with a single object and no background.
_LEVELS = (2, 4, 16, 32)  # with fewer than 8 levels, arrays per level are `constant`
_IMAGES = (1, 4, 64)  # pixels; arrays per ray are then `constant`, mixed, or `device`


def configurations() -> Iterator[Config]:
    """Yield all presets, and configurations that cover every value of every kernel option."""
    yield from PRESETS.values()
    for levels, features in product(_LEVELS, FEATURES):
        if levels * features % 16 == 0 and levels * features <= WIDEST_FEATURES:
            yield override(Config(), grid={"levels": levels, "features": features})
    for width in WIDTHS:
        yield override(Config(), networks={"width": width})
    for layers in range(1, 4 + 1):
        yield override(Config(), networks={"density_layers": layers, "color_layers": layers})
    yield override(Config(), refine={"exposures": True})


_FIRST_VARIANTS, *_OTHER_VARIANTS = (
    {name: chosen for name, chosen in zip(VARIANTS, ways, strict=True) if chosen is not None}
    for ways in zip_longest(*(variants.on_gpu for variants in VARIANTS.values()))
)
"""Selections of variants. Together, they include every variant that can run on a GPU."""


def specializations() -> dict[str, Launch]:
    """Return one launch of each specialization, keyed by its name, in the order of first use."""
    with recorded() as launches, using(**_FIRST_VARIANTS):
        for config in configurations():
            build_graphs(config)
        # Only some scenes and methods use these operations.
        for case in (*penalty_cases(), *sensor_depth_cases(), *spherical_harmonics_cases()):
            case.run()
    return {launch.specialization: launch for launch in launches.values()}


def launched_and_missed(done: Iterable[Compared]) -> tuple[list[str], list[str]]:
    """Return the reachable specializations that ran, and those that did not run."""
    launched = {name for case in done if not case.fault for name in case.launched}
    reachable = specializations()
    return [n for n in reachable if n in launched], [n for n in reachable if n not in launched]


def unseen(config: Config, bounds: Bounds = OBJECT) -> tuple[Trainer, TrainState]:
    """Create a trainer with one training view of four pixels, and an initial training state."""
    views = Views(mx.zeros((4, 4), mx.uint8), Cameras.stack([small_camera(4)]), ("one",))
    model = Model(config, bounds, views.cameras)
    return Trainer(model, views), model.preview([small_camera(4)])


def small_camera(pixels: int) -> Camera:
    """Return a camera above the scene, with an image of `pixels` x 1 pixels."""
    return Camera.look_at((2, 1, 3), (0, 0, 0), (0, 0, 1), Lens.from_fov(1.0, pixels, 1))


def build_graphs(config: Config) -> None:
    """Build the graphs of training and rendering with `config`, without evaluating them."""
    trainer, state = unseen(config)
    model = trainer.model
    deque(trainer.trial(state), maxlen=0)
    for pixels in _IMAGES:
        model.renderer(state).render(small_camera(pixels))
    for chosen in _OTHER_VARIANTS:
        with using(**chosen):
            trainer.advance(state, 0.0)

    # This is the gradient of the density, for normals.
    def density(position: mx.array) -> mx.array:
        samples, rays = model.viewpoints.through(position)
        return model.field(state.parameters, samples, rays).density.sum()

    mx.grad(density)(mx.zeros((64, 3)))


_BUFFER = re.compile(r"^\s*(?P<type>\S.*?) (?P<name>\w+) \[\[buffer\((?P<index>\d+)\)\]\]", re.M)


def write_metal(folder: Path) -> list[Path]:
    """Write `<specialization>.metal` for each specialization to a new folder. Return the paths."""
    check_free(folder)
    make_folder(folder)
    texts = {folder / f"{name}.metal": each for name, each in specializations().items()}
    for path, launch in texts.items():
        with appearing(path) as partial:
            partial.write_text(f"{heading(launch)}\n{launch.text}", encoding="utf-8")
    return [*texts]


def heading(launch: Launch) -> str:
    """Return the comment at the beginning of the file of a specialization."""
    shapes = ", ".join(str(shape) for shape in launch.output_shapes)
    grid, group = (" x ".join(map(str, size)) for size in (launch.grid, launch.group))
    lines = [
        f"{launch.name}, of nerfmac {nerfmac_version()}",
        f"as MLX {version('mlx')} gives it to Metal's compiler, after MLX's own header",
        f"example of a launch: {grid} threads in groups of {group}",
        f"outputs of shapes {shapes}" + (", which start from zero" if launch.zeroed else ""),
        *(f"buffer {b['index']}: {b['type']} {b['name']}" for b in _BUFFER.finditer(launch.text)),
    ]
    return "\n".join(f"// {line}" for line in lines)
