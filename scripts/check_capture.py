"""Check `nerfmac capture` with a rendered video of the built-in scene. The true cameras are known.

The still life of ``scripts/make_scene.py`` is rendered along a rising arc and written as a video.
The scene has a speckled floor, because the smooth paint of the objects has too few SIFT features.
`nerfmac capture` estimates the cameras from the video. The estimated cameras are compared with the
true cameras as in `nerfmac inspect --against`. The exit code is 1 if the median error exceeds half
a degree or one percent of the mean radius.

    python scripts/check_capture.py --out /tmp/recorded
"""

import argparse
import json
from pathlib import Path

import numpy as np
from make_scene import CAMERA_ANGLE_X, CAMERA_DISTANCE, Array, sample
from PIL import Image

from nerfmac.app.capture import capture_scene
from nerfmac.app.inspection import compare_cameras
from nerfmac.app.scenes import load_scene
from nerfmac.app.video.encoding import write_video

FLOOR = -0.75  # height of the floor, below the board
TEXELS, WIDTH, WITHIN = 1024, 12.8, 4  # floor: the texture repeats after WIDTH
ARC, LOW, HIGH = 220.0, 24.0, 48.0  # degrees: around, and up from the first frame to the last
DEGREES, RADII = 0.5, 0.01  # largest median errors


def poses(count: int) -> Array:
    """Return camera-to-world matrices (count, 4, 4) along the arc. The cameras look at the
    origin."""
    way = np.linspace(0.0, 1.0, count)
    azimuth, height = np.radians(ARC * way), np.radians(LOW + (HIGH - LOW) * way)
    flat = np.cos(height)
    back = np.stack([flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(height)], axis=1)
    right = np.stack([-np.sin(azimuth), np.cos(azimuth), 0 * azimuth], axis=1)
    pose = np.tile(np.eye(4), (count, 1, 1))
    pose[:, :3, :3] = np.stack([right, np.cross(back, right), back], axis=2)
    pose[:, :3, 3] = 0.8 * CAMERA_DISTANCE * back
    return pose


def speckles() -> Array:
    """Return the floor texture (TEXELS, TEXELS, 3) in sRGB: noise at three scales."""
    random, paint = np.random.default_rng(7), np.full((TEXELS, TEXELS, 3), 0.5)
    for side in (16, 64, 200):
        noise = Image.fromarray(random.integers(0, 255, (side, side, 3), np.uint8))
        wide = noise.resize((TEXELS, TEXELS), Image.Resampling.BICUBIC)
        paint += 0.5 * (np.asarray(wide) / 255 - 0.5)
    return np.clip(paint, 0, 1)


def floor(pose: Array, size: int, paint: Array) -> Array:
    """Return an image (3, size * size) in sRGB of the floor without objects, from a camera above
    the floor.

    A pixel is the mean of `WITHIN` x `WITHIN` samples. With fewer samples, the far floor would have
    aliasing that changes from frame to frame and disturbs SIFT.
    """
    fine = WITHIN * size
    rows, columns = np.divmod(np.arange(fine * fine), fine)
    x, y = (np.stack([columns, rows]) + 0.5 - fine / 2) * (np.tan(CAMERA_ANGLE_X / 2) * 2 / fine)
    ray = pose[:3, :3] @ np.stack([x, -y, -np.ones_like(x)])
    away = (FLOOR - pose[2, 3]) / np.minimum(ray[2], -1e-3)
    u, v = ((pose[:2, 3:] + away * ray[:2]) * TEXELS / WIDTH).astype(int) % TEXELS
    seen = paint[u, v].T.reshape(3, size, WITHIN, size, WITHIN).mean(axis=(2, 4))
    return np.asarray(seen.reshape(3, -1))


def frame(pose: Array, size: int, samples: int, paint: Array) -> Array:
    """Return a frame, uint8 (size, size, 3), of the scene and the floor, with `samples` x `samples`
    samples per pixel."""
    corner = np.stack(np.meshgrid(np.arange(size), np.arange(size))).reshape(2, -1)
    mean = sample(pose, corner, samples, size).mean(axis=1)
    shown = mean[:3] + (1.0 - mean[3]) * floor(pose, size, paint)
    return np.round(255 * np.clip(shown, 0, 1)).astype(np.uint8).T.reshape(size, size, 3)


def render_video(folder: Path, count: int, size: int, samples: int) -> Path:
    """Write frames, their cameras, and a video of the frames to `folder`, and return the path of
    the video."""
    (folder / "truth").mkdir(parents=True, exist_ok=True)
    frames, listed, paint = [], [], speckles()
    for index, pose in enumerate(poses(count)):
        frames.append(frame(pose, size, samples, paint))
        name = f"frame_{index:06}"
        Image.fromarray(frames[-1]).save(folder / "truth" / f"{name}.png")
        listed.append({"file_path": name, "transform_matrix": pose.tolist()})
        print(name, flush=True)
    text = json.dumps({"camera_angle_x": CAMERA_ANGLE_X, "frames": listed}, indent=1)
    (folder / "truth" / "transforms_train.json").write_text(text + "\n")
    write_video(folder / "video.mp4", frames, fps=10)
    return folder / "video.mp4"


def main() -> int:
    """Render the video, run the capture, compare the cameras, and return the exit code."""
    parser = argparse.ArgumentParser(description="Capture a video of the built-in scene.")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--size", type=int, default=360, help="side of a frame, in pixels")
    parser.add_argument("--samples", type=int, default=2, help="samples along a pixel's side")
    parser.add_argument("--frames", type=int, default=32, help="number of frames in the video")
    arguments = parser.parse_args()
    video = render_video(arguments.out, arguments.frames, arguments.size, arguments.samples)
    scene = load_scene(capture_scene(video, arguments.out / "scene"))
    found = compare_cameras(scene, arguments.out / "truth")
    print(found)
    is_close = np.median(found.degrees) <= DEGREES and np.median(found.away) <= RADII
    return 0 if is_close and len(found.names) >= 0.95 * arguments.frames else 1


if __name__ == "__main__":
    raise SystemExit(main())
