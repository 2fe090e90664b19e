"""Contents of a video, decoded with ffmpeg."""

import re
import subprocess
from pathlib import Path

import imageio_ffmpeg
import numpy as np


def decoded(path: Path) -> tuple[str, np.ndarray]:
    """Return ffmpeg's description of a video, and all frames `(n, h, w, 3)`."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path), "-fps_mode", "passthrough"]
    command += ["-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    run = subprocess.run(command, capture_output=True, check=True)
    about = next(line for line in run.stderr.decode().splitlines() if "Video: " in line)
    width, height = map(int, re.search(r", (\d+)x(\d+)", about).groups())
    return about, np.frombuffer(run.stdout, np.uint8).reshape(-1, height, width, 3)
