"""Rays in the faces of cells: how many cells they visit, and that they agree with the reference.

Such a ray is as far from its next face along an axis as from the face in which it is: the distance
to a face may be 0, or smaller than the rounding of a position.
"""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.backend import Kernel, kernels_disabled
from tests.ops.marching import GEOMETRIES, grid, packed, run

VISITS = """
#include "march.metal"

// Counts how often a value is read.
template <typename Values>
struct Counted {
  Values values;
  thread int* reads;
  template <typename Index>
  METAL_FUNC auto operator[](Index i) const -> decltype(values[i]) {
    ++*reads;
    return values[i];
  }
};

// Counts the cells that the search for samples visits (trace), the cells that the loop over
// intervals visits (march), and the intervals of a ray, which are visited for its visible cells.
template <typename Origins, typename Directions, typename Jitter, typename Bits, typename Settings,
          typename Visits>
METAL_FUNC void count_visits(
    uint3 thread_index, int rays, Origins origins, Directions directions, Jitter jitter, Bits bits,
    Settings settings, Visits visits) {
  const uint ray = thread_index.x;
  if (ray >= uint(rays)) return;
  const MarchSettings to = march_settings(settings);
  const MarchRay r = march_ray(ray, origins, directions, jitter, to);
  int reads = 0;
  const Counted<Bits> counted{bits, &reads};
  for (int k = 0; k < r.intervals; ++k) march_search(r, k, counted, to);
  visits[3 * ray] = reads;
  reads = 0;
  for (int k = 0; k < r.intervals;) k = march_probe(r, k, counted, to).next;
  visits[3 * ray + 1] = reads;
  visits[3 * ray + 2] = r.intervals;
}
"""
KERNEL = Kernel(
    "visits",
    "count_visits",
    {
        "origins": (mx.float32, "rays", 3),
        "directions": (mx.float32, "rays", 3),
        "jitter": (mx.float32, "rays"),
        "bits": (mx.uint32, "words"),
        "settings": (mx.float32, 7),
    },
    {"visits": (mx.int32, "rays", 3)},
    source=VISITS,
)
FACES = (0.0, 0.25, 0.5)  # Distances from the center of the cube to a face, in every grid.


def rays_in_faces(geometry, slope):
    """Rays along each axis, in both directions, in faces of both other axes. The direction leaves
    the faces by `slope`."""
    origins, directions = [], []
    for axis in range(3):
        for sign in (-1.0, 1.0):
            for face in FACES:
                origin = np.full(3, 0.5 + face * geometry.bounds.extent / 2)
                origin[axis] = 0.5 - sign * 0.75 * geometry.bounds.extent
                direction = np.full(3, slope)
                direction[axis] = sign
                origins.append(origin)
                directions.append(direction / np.linalg.norm(direction))
    return origins, directions, np.full(len(origins), 0.5)


def visits_of(rays, is_set, geometry):
    arrays = [mx.array(np.asarray(each, np.float32)) for each in rays]
    arrays += [packed(is_set), geometry.settings()]
    (visits,) = KERNEL(*arrays, grid=(len(rays[0]), 1, 1))
    return np.array(visits)


SLOPES = [0.0, 1e-8, -1e-8, 1e-6, -1e-6, 1e-4, -1e-4, 1e-2, -1e-2]


@pytest.mark.parametrize("slope", SLOPES)
@pytest.mark.parametrize("filled", [0.0, 0.02, 1.0])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_a_ray_in_a_face_visits_few_cells(on_the_cpu, name, filled, slope):
    geometry = GEOMETRIES[name]
    rays = rays_in_faces(geometry, slope)
    visits = visits_of(rays, grid(geometry, filled), geometry)
    searched, probed, intervals = visits.T
    assert intervals.max() > 50
    assert (probed <= intervals).all()
    # A sample is visited once more when the search has crossed a cell.
    assert (searched <= 2 * intervals + 2).all(), (searched / np.maximum(intervals, 1)).max()


@pytest.mark.parametrize("slope", SLOPES)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_a_ray_in_a_face_has_the_samples_of_the_reference(on_the_cpu, name, slope):
    geometry = GEOMETRIES[name]
    rays, is_set = rays_in_faces(geometry, slope), grid(geometry, 0.3)
    found = run(rays, is_set, geometry)
    with kernels_disabled():
        expected = run(rays, is_set, geometry)
    assert np.array_equal(found["ray_start"], expected["ray_start"])
    assert np.diff(found["ray_start"]).max() > 10
    np.testing.assert_allclose(found["distance"], expected["distance"], atol=1e-5)
