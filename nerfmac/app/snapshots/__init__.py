"""Snapshots of instant-ngp's NeRF scenes, read as runs.

A snapshot, `.ingp` or `.msgpack`, holds the parameters in half precision, the density grid and the
cameras. Both programs have the same field: tiny-cuda-nn's hash grid and networks without biases.

Reading supports snapshots of version 1 and later with a HashGrid, a DenseGrid or a Grid of these
types, interpolated linearly; ReLU networks of 16, 32, 64 or 128 neurons and 1 to 4 hidden layers;
and spherical harmonics of degree 4. It refuses, with the reason, latent codes, light directions,
HDR scenes, scenes in Mitsuba's axes, lenses other than OpenCV's two, and other encodings. It
ignores the environment map, the correction of poses, exposures, and the optimizer's state.
"""

from nerfmac.app.snapshots.container import is_snapshot as is_snapshot
from nerfmac.app.snapshots.container import read_container as read_container
from nerfmac.app.snapshots.reading import load_snapshot as load_snapshot
from nerfmac.app.snapshots.reading import open_run as open_run
