"""The verdict on a reconstruction: whether its camera poses can be trusted.

The reprojection error and the number of registered images do not reveal wrong poses. Evidence
against a reconstruction is a pair of images with many matches that contradict the poses, a rotation
that explains all matches, or intrinsics that no camera has.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from nerfmac.app.capture import two_views
from nerfmac.app.capture.contradictions import contradictions, different_backgrounds
from nerfmac.app.capture.findings import EXAMPLES, WALK, Evidence, Finding, Verdict, some_of
from nerfmac.geometry import Camera

TURNED = 0.65
"""Fraction of matches explained by a rotation, in the pairs with much parallax, above which the
camera turned in place. In rendered captures, it is at most 0.61 if the estimated positions are
right, and at least 0.84 if they are wrong."""
FAR = 20.0
"""Distance of a camera from the median position, relative to the median distance, above which its
position is wrong."""
MAX_ERROR = 2.0
"""Median reprojection error of an image, relative to the tolerance of matches, above which its pose
or its intrinsics are wrong."""
SAME_LENS = 1.2
"""Maximum ratio of the estimated focal length and the focal length in EXIF."""
MIN_FOCAL, MAX_FOCAL = 0.35, 6.0
"""Focal lengths, relative to the longer side, of real photo lenses that are not fisheye lenses."""
SHAPES = ((4, 3), (3, 2), (16, 9), (3, 4), (2, 3), (9, 16))
"""Aspect ratios of photos."""
SQUEEZED = 1.05  # Minimum ratio of the focal lengths of a squeezed image.
SAME_SHAPE = 1.04  # Maximum ratio of an estimated aspect ratio and one in `SHAPES`.
MAX_SHAPES = 2
"""Maximum number of aspect ratios of uncropped photos. Cameras and phones offer several."""


def judge(evidence: Evidence) -> Verdict:
    """Judge a reconstruction. Refusals come first."""
    found = [
        *_turned(evidence),
        *contradictions(evidence),
        *different_backgrounds(evidence),
        *_far_cameras(evidence.cameras),
        *_large_errors(evidence),
        *_squeezed(evidence.cameras),
        *_lenses(evidence),
        *_crops(evidence.cameras),
    ]
    is_turned = any(finding.kind == "turned" for finding in found)
    if Verdict(tuple(found)).is_refused and not is_turned and not evidence.focals:
        # Without parallax, the focal length of the model is arbitrary, and so are other findings.
        found = [*turned(evidence.matches, evidence.images), *found]
    return Verdict(tuple(sorted(found, key=lambda finding: not finding.is_refused)))


def _turned(evidence: Evidence) -> list[Finding]:
    """Report that the camera turned in place, with the intrinsics of the model or with the focal
    lengths from EXIF. A model without parallax may have wrong intrinsics."""
    of_size = {camera.lens.size: camera.lens for camera in evidence.cameras.values()}
    known = {image.name: image.lens() for image in evidence.images if image.focal}
    estimated = {
        image.name: of_size[image.width, image.height]
        for image in evidence.images
        if (image.width, image.height) in of_size
    }
    shares = [two_views.turned_share(evidence.matches, lenses) for lenses in (known, estimated)]
    return _in_place(max(shares))


def turned(matches: two_views.Matches, images: Sequence[two_views.CapturedImage]) -> list[Finding]:
    """Report that the camera turned in place, from matches alone. Without parallax, no position can
    be known."""
    return _in_place(two_views.turned_share_of(matches, images))


def _in_place(share: float) -> list[Finding]:
    evidence = (
        f"the camera turned in place: a rotation explains {share:.0%} of the matches, and without "
        "a change of position neither positions nor depth can be estimated"
    )
    return [Finding("turned", evidence, WALK)] if share > TURNED else []


def _far_cameras(cameras: two_views.CameraMap) -> Iterable[Finding]:
    """Report cameras that are orders of magnitude farther away than the others."""
    names = sorted(cameras)
    eyes = np.stack([cameras[name].pose[:, 3] for name in names]).astype(np.float64)
    distance = np.linalg.norm(eyes - np.median(eyes, axis=0), axis=1)
    median = max(float(np.median(distance)), 1e-12)
    far = [name for name, at in zip(names, distance, strict=True) if at > FAR * median]
    if far:
        verb = "is" if len(far) == 1 else "are"
        yield Finding(
            "far",
            f"{some_of(far)} {verb} more than {FAR:g} times as far away as the other cameras",
            f"remove {'this image' if len(far) == 1 else 'these images'}, or {WALK}",
            is_refused=len(far) > max(1, len(names) // 10),
        )


def _large_errors(evidence: Evidence) -> Iterable[Finding]:
    """Report images with large median reprojection errors, from the errors of their points, which
    are means over all images that observe a point. Medians ignore single wrong points."""
    points, bad = {name: some for name, some in evidence.points.items() if len(some)}, []
    errors = {name: float(np.median(evidence.model.errors[some])) for name, some in points.items()}
    for name, error in errors.items():
        if error > MAX_ERROR * two_views.tolerance(evidence.cameras[name].lens):
            bad.append(name)
    if bad:
        yield Finding(
            "error",
            f"the median reprojection error of {some_of(bad)} is "
            f"{max(errors[name] for name in bad):.1f} pixels, more than sharp images of a static "
            "scene have",
            "remove blurred, cropped, and edited images, and record a scene in which nothing moves",
            is_refused=2 * len(bad) > len(errors),
        )


def _squeezed(cameras: two_views.CameraMap) -> Iterable[Finding]:
    """Report images that have been resized to another aspect ratio."""
    names = [name for name, camera in sorted(cameras.items()) if _is_squeezed(camera)]
    if names:
        camera = cameras[names[len(names) // 2]]
        width, height = camera.lens.size
        shape = width / height * _ratio_of(camera)
        known = min(SHAPES, key=lambda each: ratio(shape, each[0] / each[1]))
        before = f"photos of {known[0]}:{known[1]}"
        if ratio(shape, known[0] / known[1]) >= SAME_SHAPE:
            before = f"photos {shape:.2f} times as wide as high"
        yield Finding(
            "squeezed",
            f"the images are {before} that have been resized to {width}x{height}; their cameras "
            "have two focal lengths",
            "use the original photos if you have them",
            is_refused=False,
        )


def _ratio_of(camera: Camera) -> float:
    return camera.lens.fl_y / camera.lens.fl_x


def _is_squeezed(camera: Camera) -> bool:
    return ratio(_ratio_of(camera), 1.0) > SQUEEZED


def _lenses(evidence: Evidence) -> Iterable[Finding]:
    """Report focal lengths that contradict EXIF or that no lens has."""
    cameras, contradicting, impossible = evidence.cameras, [], []
    for name, camera in sorted(cameras.items()):
        lens, known = camera.lens, evidence.focals.get(name, 0.0)
        relative = lens.fl_x / max(lens.size)
        if known and not _is_squeezed(camera) and ratio(lens.fl_x, known) > SAME_LENS:
            contradicting.append(name)
        elif not lens.is_fisheye and not MIN_FOCAL < relative < MAX_FOCAL:
            impossible.append(name)
    if contradicting:
        name = contradicting[0]
        yield Finding(
            "focal length",
            f"the estimated focal length of {some_of(contradicting)} is "
            f"{cameras[name].lens.fl_x:.0f} pixels, but EXIF specifies {evidence.focals[name]:.0f}",
            "use uncropped photos without zoom, or pass the focal length with --focal-35mm",
            is_refused=False,
        )
    if impossible:
        name = impossible[0]
        lens = cameras[name].lens
        yield Finding(
            "focal length",
            f"the estimated focal length of {some_of(impossible)} is {lens.fl_x:.0f} pixels at "
            f"{lens.width}x{lens.height}, which is not plausible for a photo lens",
            "pass the focal length with --focal-35mm",
            is_refused=False,
        )


def _crops(cameras: two_views.CameraMap) -> Iterable[Finding]:
    """Report images with many shapes. The principal point of a cropped photo is unknown."""
    shapes: dict[float, str] = {}
    for name, camera in sorted(cameras.items()):
        size = camera.lens.size
        shapes.setdefault(round(max(size) / min(size), 2), name)
    if len(shapes) > MAX_SHAPES:
        yield Finding(
            "crops",
            f"the images have {len(shapes)} different aspect ratios, such as those of "
            f"{', '.join([*shapes.values()][:EXAMPLES])}: cropped photos have unknown principal "
            "points, so that their cameras may look in wrong directions",
            "use uncropped photos",
            is_refused=False,
        )


def ratio(one: float, other: float) -> float:
    """Return the ratio of the larger to the smaller of two positive values."""
    return max(one / other, other / one)
