"""Training pixels in PyTorch. Photos and cameras are on the device, and rays are drawn from
them."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import torch
from torch.nn import functional

from nerfmac.geometry import Camera, Cameras, Views, camera_rays, directions


class TorchPixels:
    """Pixels of the training views."""

    def __init__(self, views: Views, device: torch.device) -> None:
        """Copy the views to `device`, and compute the ray direction of each pixel center for each
        lens."""
        self._colors = torch.from_numpy(np.array(views.pixels)).to(device)
        self._poses = torch.from_numpy(np.array(views.cameras.poses)).to(device)
        points, first_point = _lenses(views.cameras)
        self._points = torch.from_numpy(points).to(device)
        self._first_point = torch.from_numpy(first_point).to(device)
        first_pixel = np.array(views.cameras.places)[:, 0].astype(np.int64)
        self._first_pixel = torch.from_numpy(first_pixel).to(device)
        sizes = np.prod(views.cameras.sizes, axis=1)
        self._largest, self._sizes = int(sizes.max()), torch.from_numpy(sizes).to(device)

    def draw(
        self, count: int, generator: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Draw random pixels. Return the origins and unit directions (count, 3) of their rays, and
        their colors (count, 4)."""
        every, channels = self._colors.shape

        def below(end: int) -> torch.Tensor:
            return torch.randint(end, (count,), generator=generator, device=self._colors.device)

        view, pixel = below(len(self._first_pixel)), below(self._largest)
        place = self._first_pixel[view] + pixel
        if every < self._largest * len(self._first_pixel):
            # Positions outside a smaller image are drawn again, so that all pixels are equally
            # likely.
            place = torch.where(pixel < self._sizes[view], place, below(every))
            view = torch.searchsorted(self._first_pixel, place, right=True) - 1
        color = self._colors[place].float() / 255.0
        if channels == 3:
            color = torch.cat([color, color.new_ones(count, 1)], 1)
        point = self._first_point[view] + place - self._first_pixel[view]
        x, y, z = self._points[point][:, :, None].unbind(1)
        pose = self._poses[view]
        direction = pose[:, :, 0] * x - pose[:, :, 1] * y - pose[:, :, 2] * z
        return pose[:, :, 3], functional.normalize(direction), color


def rays_of(camera: Camera, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the origins and directions (pixels, 3) of the rays through all pixels of a view."""
    rays = camera_rays(camera)
    origins, directions = (torch.from_numpy(np.array(part)).to(device) for part in rays)
    return origins, directions


def _lenses(cameras: Cameras) -> tuple[np.ndarray, np.ndarray]:
    """Return the ray directions (points, 3), with y down, of all pixels of each lens, and the index
    of the first direction for each view."""
    numbers = np.concatenate([cameras.sizes, cameras.intrinsics, cameras.distortion], axis=1)
    lenses, lens_of = np.unique(numbers.astype(np.float32), axis=0, return_inverse=True)
    points = []
    for lens in lenses:
        width, height, *_ = lens.astype(int)
        row, column = np.indices((height, width), np.float32)
        pixels = np.stack([column, row], axis=-1).reshape(-1, 2) + np.float32(0.5)
        distortion = mx.array(lens[None, 6:]) if lens[6:].any() else None
        point = mx.array((pixels - lens[4:6]) / lens[2:4])
        points.append(np.array(directions(point, distortion, bool(lens[-1]))))
    first = np.cumsum([0, *(len(each) for each in points[:-1])])
    return np.concatenate(points), first[lens_of.reshape(-1)]
