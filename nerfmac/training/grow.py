"""Growth of a run that has begun with a smaller hash table and fewer samples per step.

A slow GPU learns more from its first seconds with many small steps; see
`nerfmac.training.resolve.for_pace`. The field does not change at the moment of growth: each entry
of the larger table is a copy of the entry that its vertices had before.
"""

from dataclasses import replace

from nerfmac.backend import Arrays
from nerfmac.config import Config, override
from nerfmac.fields.encodings import HashGrid
from nerfmac.geometry import Bounds
from nerfmac.training.ray_budget import RayBudget
from nerfmac.training.resolve import sizes
from nerfmac.training.state import TrainState


def grown(config: Config) -> Config:
    """Return a configuration with the sizes of its preset, which does not grow again."""
    return override(config, **sizes(config.unchanged), train={"grow_at": 0})


def grown_state(state: TrainState, config: Config, after: Config, bounds: Bounds) -> TrainState:
    """Return a state as the state of another configuration with a larger table.

    Args:
        state: State of the training.
        config: Configuration of the training so far.
        after: Configuration with a larger table and otherwise the same encoding.
        bounds: The scene cube.

    Returns:
        State with the same field. The next step has as many rays as fit in its samples, and updates
        the sampler, so that limits on the number of rays apply.
    """
    smaller, larger = (HashGrid(each.grid, bounds).levels for each in (config, after))
    rows = larger.rows_in(smaller)

    def copied(arrays: Arrays) -> Arrays:
        # A custom field may have no table.
        return {n: values[rows] if n == "table" else values for n, values in arrays.items()}

    parameters, average, moments = map(copied, (state.parameters, state.average, state.moments))
    state = replace(state, parameters=parameters, average=average, moments=moments)
    rays = RayBudget.of(after).rays(float(state.samples_per_ray))
    return replace(state, rays=rays, next_update=state.step)
