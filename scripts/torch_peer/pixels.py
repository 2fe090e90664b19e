"""Training pixels in PyTorch: photographs and cameras on the device, rays drawn from them."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import torch
from torch.nn import functional

from nerfmac.geometry.cameras import Camera, Cameras
from nerfmac.geometry.lenses import undistort
from nerfmac.geometry.rays import camera_rays
from nerfmac.scenes import Views


class TorchPixels:
    """The pixels of a training split."""

    def __init__(self, views: Views, device: torch.device) -> None:
        """Copies the split to `device`, and where each lens sees the centre of each pixel."""
        self._views, self._height, self._width, self._channels = views.images.shape
        self._colours = torch.from_numpy(np.array(views.images)).to(device)
        self._colours = self._colours.view(-1, self._channels)
        self._poses = torch.from_numpy(np.array(views.cameras.poses)).to(device)
        points, lens_of = _lenses(views.cameras)
        self._points = torch.from_numpy(points).to(device)
        self._lens_of = torch.from_numpy(lens_of).to(device)

    def draw(
        self, count: int, generator: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Origins and unit directions (count, 3) of random pixels' rays, colours (count, 4)."""
        size = self._height * self._width
        device = self._colours.device
        view = torch.randint(self._views, (count,), generator=generator, device=device)
        pixel = torch.randint(size, (count,), generator=generator, device=device)
        colour = self._colours[view * size + pixel].float() / 255.0
        if self._channels == 3:
            colour = torch.cat([colour, colour.new_ones(count, 1)], 1)
        x, y = self._points[self._lens_of[view], pixel, :, None].unbind(1)
        pose = self._poses[view]
        direction = pose[:, :, 0] * x - pose[:, :, 1] * y - pose[:, :, 2]
        return pose[:, :, 3], functional.normalize(direction), colour


def rays_of(camera: Camera, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Origins and directions (pixels, 3) of the rays through all pixels of a view."""
    rays = camera_rays(camera)
    origins, directions = (torch.from_numpy(np.array(part)).to(device) for part in rays)
    return origins, directions


def _lenses(cameras: Cameras) -> tuple[np.ndarray, np.ndarray]:
    """Points (lenses, pixels, 2) = (x, y) of the directions (x, y, 1), y down; each view's lens."""
    numbers = np.concatenate([cameras.intrinsics, cameras.distortion], axis=1)
    lenses, lens_of = np.unique(numbers, axis=0, return_inverse=True)
    row, column = np.indices((cameras.height, cameras.width), np.float32)
    pixels = np.stack([column, row], axis=-1).reshape(-1, 2) + np.float32(0.5)
    points = []
    for lens in lenses:
        point = (pixels - lens[2:4]) / lens[:2]
        if lens[4:].any():
            point = np.array(undistort(mx.array(point), mx.array(lens[None, 4:])))
        points.append(point)
    return np.stack(points), lens_of.reshape(-1)
