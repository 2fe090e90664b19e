"""A database of COLMAP's with matches of cameras that are known, made without photos."""

from itertools import combinations

import numpy as np

from nerfmac.app.capture import colmap_process, two_views
from nerfmac.app.capture.inputs import CapturedImage

WIDTH, HEIGHT = 800, 533
NOISE = 0.4
"""Standard deviation of a feature's place, in pixels."""


def write_matches(folder, *, focal, count=12, height=1.2, arc=360.0, depth=0.0):
    """Write and return `database.db` and `matches.npz` of a ring of images in `folder`.

    The cameras are evenly spaced on an `arc` in degrees with radius 3 and look at the center of a
    square table with 400 points up to `depth` above it. `focal` is relative to the longer side.
    """
    import pycolmap

    random = np.random.default_rng(3)
    points = random.uniform(-1.2, 1.2, (400, 3)) * [1, 1, depth / 1.2]
    lens = focal * WIDTH, WIDTH / 2, HEIGHT / 2
    images = [CapturedImage(f"{number:02}.png", WIDTH, HEIGHT, 0.0) for number in range(count)]
    plan = {"names": [image.name for image in images], "images": str(folder), "masks": ""}
    names = colmap_process.Names(plan, folder / "numbered")
    with pycolmap.Database.open(folder / "database.db") as database:
        guess = pycolmap.Camera.create_from_model_name(1, "RADIAL", 0.85 * WIDTH, WIDTH, HEIGHT)
        guess.camera_id = database.write_camera(guess)
        rig = pycolmap.Rig()
        rig.add_ref_sensor(guess.sensor_id)
        rig_id = database.write_rig(rig)
        numbers, visible, places = [], [], []
        for image, angle in zip(images, np.radians(arc) * np.arange(count) / count, strict=True):
            (name,) = names.numbered([image.name])
            entry = pycolmap.Image(name=name, camera_id=guess.camera_id)
            entry.image_id = database.write_image(entry)
            frame = pycolmap.Frame()
            frame.rig_id = rig_id
            frame.add_data_id(entry.data_id)
            database.write_frame(frame)
            pixels = _pixels(points, angle, height, lens) + random.normal(0, NOISE, (400, 2))
            inside = ((pixels > 0) & (pixels < [WIDTH, HEIGHT])).all(axis=1)
            database.write_keypoints(entry.image_id, pixels[inside].astype(np.float32))
            numbers.append(entry.image_id)
            visible.append(np.flatnonzero(inside))
            places.append(pixels[inside])
        for one, other in combinations(range(count), 2):
            apart = min(other - one, count - other + one)
            common = np.intersect1d(visible[one], visible[other], return_indices=True)[1:]
            pairs = np.stack(common, axis=1).astype(np.uint32)
            # The further apart, the fewer features are recognized.
            pairs = pairs[random.random(len(pairs)) < np.exp(-apart / 4)]
            database.write_matches(numbers[one], numbers[other], pairs)
            geometry = pycolmap.estimate_two_view_geometry(
                guess, places[one], guess, places[other], pairs
            )
            database.write_two_view_geometry(numbers[one], numbers[other], geometry)
        colmap_process.write_matches(pycolmap, database, folder / two_views.MATCHES, names)
    return images


def _pixels(points, angle, height, lens):
    """Where a camera at an angle of the ring sees `points` (n, 3): pixels (n, 2)."""
    focal, *middle = lens
    eye = np.array([3 * np.cos(angle), 3 * np.sin(angle), height])
    forward = -eye / np.linalg.norm(eye)
    right = np.cross(forward, [0, 0, 1]) / np.linalg.norm(np.cross(forward, [0, 0, 1]))
    local = (points - eye) @ np.stack([right, np.cross(forward, right), forward], axis=1)
    return focal * local[:, :2] / local[:, 2:] + middle
