"""Reading of NeRF snapshots of instant-ngp as runs.

A snapshot is a file with the extension `.ingp` or `.msgpack`. It contains the parameters in half
precision, the density grid, and the cameras. instant-ngp and nerfmac use the same field: the hash
grid of tiny-cuda-nn and networks without biases.

nerfmac supports snapshots of version 1 and later. The encoding must be a HashGrid, a DenseGrid, or
a Grid of these types, with linear interpolation. The networks must be ReLU networks with 16, 32,
64, or 128 neurons and 1 to 4 hidden layers. Directions must be encoded with spherical harmonics of
degree 4. Snapshots with latent codes, light directions, HDR images, the axes of Mitsuba, lenses
other than the two OpenCV models, or other encodings are refused, and the error message contains the
reason. The environment map, pose corrections, exposures, and the optimizer state are ignored.
"""

from nerfmac.app.snapshots.reading import *
