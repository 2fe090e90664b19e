"""Description of the depth images of a scene, and comparison of depth images of different views."""

import numpy as np

from nerfmac.app.scenes import Frame, Scene, measured_depth
from nerfmac.app.scenes.depth_images import stored_values
from nerfmac.geometry import trusted

MAX_STEP, REPEATED = 0.01, 10
"""Steps between the values of quantized depth images are larger than this fraction of the median
depth, and a value occurs this number of times on average."""


def depth_report(scene: Scene) -> tuple[list[str], list[str]]:
    """Return facts and findings about the depth images of a scene, or nothing if it has none."""
    frames = [frame for part in scene.splits.values() for frame in part]
    unique = list({id(frame): frame for frame in frames if frame.depth}.values())
    if not unique:
        return [], []
    chosen, views = unique[:: -(-len(unique) // measured_depth.MAX_VIEWS)], []
    for frame in chosen:
        decoded = frame.decode_depth()
        assert decoded is not None
        lens, pose = frame.camera.lens, frame.camera.pose
        views.append(measured_depth.Measured(lens, pose, *trusted(*decoded)))
    known = np.concatenate([view.depth[view.confidence > 0] for view in views])
    share = np.mean([(view.confidence > 0).mean() for view in views])
    height, width = views[0].depth.shape
    fact = f"depth      {len(unique)} images of {width}x{height} pixels, {share:.0%} known"
    if not len(known):
        return [fact], [
            "no depth in the depth images is known, confident, and in the range of the sensor; "
            "their unit may be wrong"
        ]
    unit = scene.placement.scale
    low, high = np.quantile(known, (0.01, 0.99)) / unit
    fact += f", from {low:.3g} to {high:.3g} in file units"
    findings, agreement = _quantized(chosen), measured_depth.agreement_of(views, views).share
    if not np.isnan(agreement):
        fact += f"; {agreement:.0%} of the depths agree with other views"
    if agreement < measured_depth.MIN_AGREEMENT:
        findings.append(
            f"only {agreement:.0%} of the depths agree within {measured_depth.AGREEMENT:.0%} with "
            "the depth images of other views; the camera poses, or the axes or the unit of the "
            "depth images, are wrong: correct them, or ignore the depth images with --no-depth"
        )
    return [fact], findings


def _quantized(frames: list[Frame]) -> list[str]:
    """Report depth images with large steps between their values, as of 8 bits."""
    found = [stored_values(frame.depth) for frame in frames if frame.depth]
    known = np.concatenate([values[values > 0] for values in found])
    levels = np.unique(known)
    if len(levels) < 2 or REPEATED * len(levels) > len(known):
        return []
    step, middle = float(np.median(np.diff(levels))), float(np.median(known))
    if step <= MAX_STEP * middle:
        return []
    return [
        f"the depth images contain only {len(levels)} different values, in steps of "
        f"{step / middle:.1%} of the median depth, as of images with 8 bits; store depth with 16 "
        "bits, or ignore it with --no-depth"
    ]
