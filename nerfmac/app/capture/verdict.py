"""The verdict on a reconstruction: whether its camera poses can be trusted.

The reprojection error and the number of registered images do not reveal wrong poses. If an object
looks the same from two sides, structure from motion may place all cameras on one side ("folding"),
with small errors. Evidence against a reconstruction is a pair of images with many matches that
contradict the poses. Matches between images of two similar sides are wrong, but the images before
and after each other in a video or a walk around the object do show the same content.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import combinations, pairwise, product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.app.capture.background import Seen, different_backgrounds
from nerfmac.app.capture.pairs import in_sequence, sorted_pair
from nerfmac.app.capture.two_views import (
    CapturedImage,
    Matches,
    Pair,
    agreements,
    size_of,
    tolerance,
    turned_share,
    turned_share_of,
)
from nerfmac.app.scenes.readers.colmap import camera_to_file, lens_of
from nerfmac.app.scenes.readers.colmap_model import ColmapModel
from nerfmac.common import InputError
from nerfmac.geometry import Camera, angle_between

Floats = npt.NDArray[np.float64]

NEXT = 2
"""Maximum distance, in the order of capture, of images whose matches are trusted."""
MIN_CONTRADICTING = 20  # Minimum number of matches that contradict the poses.
CONTRADICTED = 0.5
"""Fraction of matches that agree with the poses below which a pair contradicts the poses."""
APART = 60.0
"""Angle in degrees between viewing axes above which SIFT finds no correct matches."""
STRONG = 0.4
"""Minimum number of matches of an ambiguous pair, relative to the best pair of each of its images.
Wrong matches that do not affect the poses are few: at most 0.15 in captures with correct poses."""
SHARED = 15  # Minimum number of sparse points that two connected images share.
TURNED = 0.65
"""Fraction of matches explained by a rotation, in the pairs with much parallax, above which the
camera turned in place. In rendered captures, it is at most 0.61 if the estimated positions are
right, and at least 0.84 if they are wrong."""
JUMP = 2.5
"""Distance or angle of consecutive cameras, relative to the median, above which a part of the
cameras is on the wrong side. Folding moves many cameras far."""
FAR = 20.0
"""Distance of a camera from the median position, relative to the median distance, above which its
position is wrong."""
MAX_ERROR = 2.0
"""Median reprojection error of an image, relative to the tolerance of matches, above which its pose
or its intrinsics are wrong."""
MIN_CONFLICTS = 3  # Minimum number of pairs of cameras with different backgrounds.
SAME_LENS = 1.2
"""Maximum ratio of the estimated focal length and the focal length in EXIF."""
MIN_FOCAL, MAX_FOCAL = 0.35, 6.0
"""Focal lengths, relative to the longer side, of real photo lenses that are not fisheye lenses."""
SHAPES = ((4, 3), (3, 2), (16, 9), (3, 4), (2, 3), (9, 16))
"""Aspect ratios of photos."""
SAME_SHAPE = 1.04  # Maximum ratio of an estimated aspect ratio and one in `SHAPES`.
CONTRADICTIONS = ("order", "jump", "background")
"""Kinds of findings that estimating the cameras from fewer pairs may avoid."""
MAX_SHAPES = 2
"""Maximum number of aspect ratios of uncropped photos. Cameras and phones offer several."""
EXAMPLES = 3  # Maximum number of images that a finding lists.


class RefusedError(InputError):
    """Exception for images from which no trusted camera poses can be estimated. The reason is
    stored, so that the same capture fails with the same message."""


class Finding(NamedTuple):
    """Reason to distrust the poses, with its evidence and advice.

    Attributes:
        kind: Name of the check that failed.
        evidence: Clause that describes what was found.
        advice: Clause in the imperative that describes what to do.
        is_refused: Whether the reconstruction is refused. Otherwise, it is accepted with a warning.
    """

    kind: str
    evidence: str
    advice: str
    is_refused: bool = True

    @property
    def line(self) -> str:
        """The evidence and the advice, as one line."""
        return f"{self.evidence}; {self.advice}"


class Verdict(NamedTuple):
    """Findings about a reconstruction. Without findings, its poses are accepted."""

    findings: tuple[Finding, ...] = ()

    @property
    def is_refused(self) -> bool:
        """Whether at least one finding refuses the reconstruction."""
        return any(finding.is_refused for finding in self.findings)

    def has(self, kind: str) -> bool:
        """Return whether a finding is of this kind."""
        return any(finding.kind == kind for finding in self.findings)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the findings as JSON values."""
        return [finding._asdict() for finding in self.findings]

    @classmethod
    def from_json(cls, values: Any) -> Verdict:
        """Return the verdict that `to_json` stored. Unreadable values result in no findings."""
        try:
            return cls(tuple(Finding(**value) for value in values))
        except TypeError:
            return cls()


WALK = (
    "walk around the subject instead of turning in place, so that each photo is taken from another "
    "position"
)
SURROUNDINGS = "record again in smaller steps, with more of the surroundings in each image"


class Evidence(NamedTuple):
    """What a verdict is based on.

    Attributes:
        images: All images, in the order of capture if `is_ordered`.
        matches: Verified matches of the image pairs.
        model: COLMAP model.
        is_ordered: Whether the images are a video or a walk.
    """

    images: Sequence[CapturedImage]
    matches: Matches
    model: ColmapModel
    is_ordered: bool

    @property
    def focals(self) -> dict[str, float]:
        """Focal lengths from EXIF in pixels, by image name, if known."""
        return {image.name: image.focal for image in self.images if image.focal}


def judge(evidence: Evidence) -> Verdict:
    """Judge a reconstruction. Refusals come first."""
    model = evidence.model
    lenses = {number: lens_of(camera, "camera") for number, camera in model.cameras.items()}
    cameras = {im.name: Camera(lenses[im.camera], camera_to_file(im)) for im in model.images}
    points = seen_points(model)
    found = [
        *_turned(evidence, cameras),
        *_contradictions(evidence, cameras, points),
        *_backgrounds(evidence, cameras, points),
        *_far_cameras(cameras),
        *_large_errors(model, cameras, points),
        *_squeezed(cameras),
        *_lenses(evidence, cameras),
        *_crops(cameras),
    ]
    return Verdict(tuple(sorted(found, key=lambda finding: not finding.is_refused)))


def seen_points(model: ColmapModel) -> dict[str, npt.NDArray[np.int64]]:
    """Return the row numbers in `model.points` of the points that each image observes."""
    row = {int(number): index for index, number in enumerate(model.numbers)}
    return {
        image.name: np.array([row[int(p)] for p in image.points if int(p) in row], np.int64)
        for image in model.images
    }


def _turned(evidence: Evidence, cameras: Mapping[str, Camera]) -> Iterable[Finding]:
    """Report that the camera turned in place, with the intrinsics of the model or with the focal
    lengths from EXIF. A model without parallax may have wrong intrinsics."""
    of_size = {size_of(camera): camera.lens for camera in cameras.values()}
    known = {image.name: image.lens() for image in evidence.images if image.focal}
    estimated = {
        image.name: of_size[image.width, image.height]
        for image in evidence.images
        if (image.width, image.height) in of_size
    }
    share = max(turned_share(evidence.matches, lenses) for lenses in (known, estimated))
    if share > TURNED:
        yield _in_place(share)


def turned(matches: Matches, images: Sequence[CapturedImage]) -> Finding | None:
    """Return a finding if the camera turned in place, from matches alone. Without parallax, no
    position can be known."""
    share = turned_share_of(matches, images)
    return _in_place(share) if share > TURNED else None


def _in_place(share: float) -> Finding:
    return Finding(
        "turned",
        f"the camera turned in place: a rotation explains {share:.0%} of the matches, and without "
        "a change of position neither positions nor depth can be estimated",
        WALK,
    )


def _contradictions(
    evidence: Evidence, cameras: Mapping[str, Camera], points: Seen
) -> Iterable[Finding]:
    """Report pairs of images with many matches that contradict the poses."""
    matches = evidence.matches
    agreeing = agreements(matches, cameras)
    best: dict[str, int] = {}
    for pair in agreeing:
        best |= {name: max(best.get(name, 0), len(matches[pair])) for name in pair}
    wrong = [
        pair
        for pair, share in agreeing.items()
        if share < CONTRADICTED
        and len(matches[pair]) >= max(MIN_CONTRADICTING, STRONG * min(best[name] for name in pair))
    ]
    if evidence.is_ordered:
        yield from _against_order(evidence, cameras, points, wrong, agreeing)
        return
    alike = [p for p in wrong if angle_between(cameras[p[0]], cameras[p[1]]) > APART]
    if alike:
        one, other = max(alike, key=lambda pair: len(matches[pair]))
        yield Finding(
            "alike",
            f"{one} and {other} have {len(matches[one, other])} matches, but their cameras look "
            f"{_apart(cameras, one, other)} apart, and {len(alike)} pairs are "
            "inconsistent in this way: two sides of the scene look alike, and some of the cameras "
            "may be on the wrong side",
            "name the images in the order of capture and use --matching sequential, or "
            f"{SURROUNDINGS}",
            is_refused=False,
        )


def _against_order(
    evidence: Evidence,
    cameras: Mapping[str, Camera],
    points: Seen,
    wrong: Sequence[Pair],
    agreeing: Mapping[Pair, float],
) -> Iterable[Finding]:
    """Report poses that contradict the order of capture. `wrong` contains the pairs of images with
    matches that contradict the poses, and `agreeing` the agreement of all pairs."""
    names = [image.name for image in evidence.images if image.name in cameras]
    close = {sorted_pair(*pair) for pair in in_sequence(names, NEXT)} & agreeing.keys()
    torn = close.intersection(wrong)
    single = _wrong_cameras(names, torn, agreeing)
    rest = {pair for pair in torn if not single & {*pair}}
    counts = {p: len(evidence.matches[p]) for p in close if not single & {*p}}
    broken = _broken([name for name in names if name not in single], rest, counts, cameras)
    if broken:
        one, other = max(rest & broken, key=lambda pair: counts[pair])
        yield Finding(
            "order",
            f"the matches of {len(rest)} of {len(close)} pairs of consecutive images contradict "
            f"their cameras: {one} and {other} have {counts[one, other]} matches, but their "
            f"cameras look {_apart(cameras, one, other)} apart, as if two sides of an object that "
            "look alike had been confused",
            SURROUNDINGS,
        )
    elif jump := next(iter(_jumps(evidence, cameras, points)), None):
        one, other = jump
        yield Finding(
            "jump",
            f"the cameras of {one} and {other} look {_apart(cameras, one, other)} "
            "apart and share no sparse points, and no image between them has a camera, so that "
            "one of them may be on the wrong side",
            SURROUNDINGS,
        )
    elif torn:
        doubtful = sorted(single | {name for pair in rest for name in pair})
        is_one = len(doubtful) == 1
        subject = "camera of {} contradicts" if is_one else "cameras of {} contradict"
        yield Finding(
            "camera",
            f"the {subject.format(_some(doubtful))} {len(torn)} of {len(close)} pairs of "
            "consecutive images, although most pairs before and after agree",
            f"look at {'this image' if is_one else 'these images'}, and remove what is blurred or "
            "shows something that moves",
            is_refused=False,
        )


def _wrong_cameras(
    names: Sequence[str], torn: Iterable[Pair], agreeing: Mapping[Pair, float]
) -> set[str]:
    """Return the images that are in at least three `torn` pairs, if the images before and after
    them agree. If two sides were confused, the images before and after a place are on both
    sides."""
    counts = Counter(name for pair in torn for name in pair)
    return {
        name
        for before, name, after in zip(names, names[1:], names[2:], strict=False)
        if counts[name] > 2 and agreeing.get(sorted_pair(before, after), 0.0) >= CONTRADICTED
    }


def _broken(
    names: Sequence[str],
    torn: Container[Pair],
    counts: Mapping[Pair, int],
    cameras: Mapping[str, Camera],
) -> set[Pair]:
    """Return the pairs across the places in the order of capture where a part of the cameras has
    been placed on the wrong side: most matches across a place contradict the cameras, and the
    cameras are much farther apart there than elsewhere. `counts` contains the number of matches of
    each pair."""
    eyes = np.stack([cameras[name].pose[:, 3] for name in names])
    step = np.linalg.norm(np.diff(eyes, axis=0), axis=1)
    angle = np.array([angle_between(cameras[a], cameras[b]) for a, b in pairwise(names)])
    is_far = (step > JUMP * np.median(step)) | (angle > JUMP * np.median(angle))
    found: set[Pair] = set()
    for place in np.flatnonzero(is_far).tolist():
        around = names[max(place + 1 - NEXT, 0) : place + 1], names[place + 1 : place + 1 + NEXT]
        across = {sorted_pair(*pair) for pair in product(*around)} & counts.keys()
        against = {pair for pair in across if pair in torn}
        if 2 * sum(counts[p] for p in against) > sum(counts[p] for p in across):
            found |= against
    return found


def _apart(cameras: Mapping[str, Camera], one: str, other: str) -> str:
    return f"{angle_between(cameras[one], cameras[other]):.0f} degrees"


def _jumps(evidence: Evidence, cameras: Mapping[str, Camera], points: Seen) -> Iterable[Pair]:
    """Return consecutive images without common points that look in very different directions, if
    images between them are missing. Photos may be taken from separate places, but only a wrong
    reconstruction places the cameras on both sides of missing images at random."""
    index = {image.name: number for number, image in enumerate(evidence.images)}
    names = [name for name in index if name in cameras]
    for one, other in in_sequence(names, 1):
        is_gap = index[other] - index[one] > 1
        shared = np.intersect1d(points[one], points[other])
        if is_gap and len(shared) < SHARED and angle_between(cameras[one], cameras[other]) > APART:
            yield sorted_pair(one, other)


def _backgrounds(
    evidence: Evidence, cameras: Mapping[str, Camera], points: Seen
) -> Iterable[Finding]:
    """Report nearby cameras with different backgrounds."""
    positions = evidence.model.points
    pairs, compared = different_backgrounds(evidence.matches, cameras, positions, points)
    if len(pairs) >= MIN_CONFLICTS:
        one, other = pairs[0]
        yield Finding(
            "background",
            f"{len(pairs)} of {compared} pairs of nearby cameras, such as {one} and {other}, show "
            "the same object in front of different backgrounds: two objects, or two sides of an "
            "object, that look alike have probably been confused",
            SURROUNDINGS,
        )


def _far_cameras(cameras: Mapping[str, Camera]) -> Iterable[Finding]:
    """Report cameras that are orders of magnitude farther away than the others."""
    names = sorted(cameras)
    eyes = np.stack([cameras[name].pose[:, 3] for name in names]).astype(np.float64)
    distance = np.linalg.norm(eyes - np.median(eyes, axis=0), axis=1)
    median = max(float(np.median(distance)), 1e-12)
    far = [name for name, at in zip(names, distance, strict=True) if at > FAR * median]
    if far:
        yield Finding(
            "far",
            f"{_some(far)} {'is' if len(far) == 1 else 'are'} more than {FAR:g} times as far away "
            "as the other cameras",
            f"remove {'this image' if len(far) == 1 else 'these images'}, or {WALK}",
            is_refused=len(far) > max(1, len(names) // 10),
        )


def _large_errors(
    model: ColmapModel,
    cameras: Mapping[str, Camera],
    points: Seen,
) -> Iterable[Finding]:
    """Report images with large reprojection errors. Medians ignore single wrong points."""
    errors = reprojection_errors(model, cameras, points)
    bad = [
        name
        for name, size in errors.items()
        if size > MAX_ERROR * tolerance(size_of(cameras[name]))
    ]
    if bad:
        yield Finding(
            "error",
            f"the median reprojection error of {_some(bad)} is "
            f"{max(errors[name] for name in bad):.1f} pixels, more than sharp images of a static "
            "scene have",
            "remove blurred, cropped, and edited images, and record a scene in which nothing moves",
            is_refused=2 * len(bad) > len(errors),
        )


def reprojection_errors(
    model: ColmapModel,
    cameras: Mapping[str, Camera],
    points: Seen,
) -> dict[str, float]:
    """Return the median reprojection error of each image in pixels, from the errors of its points,
    which are means over all images that observe a point."""
    return {
        name: float(np.median(model.errors[points[name]])) for name in cameras if len(points[name])
    }


def _squeezed(cameras: Mapping[str, Camera]) -> Iterable[Finding]:
    """Report images that have been resized to another aspect ratio."""
    names = [name for name, camera in sorted(cameras.items()) if _ratio_of(camera) != 1.0]
    if names:
        camera = cameras[names[len(names) // 2]]
        width, height = size_of(camera)
        shape = width / height * _ratio_of(camera)
        known = min(SHAPES, key=lambda each: ratio(shape, each[0] / each[1]))
        is_known = ratio(shape, known[0] / known[1]) < SAME_SHAPE
        before = (
            "photos of {}:{}".format(*known)
            if is_known
            else f"photos {shape:.2f} times as wide as high"
        )
        yield Finding(
            "squeezed",
            f"the images are {before} that have been resized to {width}x{height}; their cameras "
            "have two focal lengths",
            "use the original photos if you have them",
            is_refused=False,
        )


def _ratio_of(camera: Camera) -> float:
    return camera.lens.fl_y / camera.lens.fl_x


def _lenses(evidence: Evidence, cameras: Mapping[str, Camera]) -> Iterable[Finding]:
    """Report focal lengths that contradict EXIF or that no lens has."""
    contradicting, impossible = [], []
    for name, camera in sorted(cameras.items()):
        lens, known = camera.lens, evidence.focals.get(name, 0.0)
        relative = lens.fl_x / max(lens.width, lens.height)
        if known and _ratio_of(camera) == 1.0 and ratio(lens.fl_x, known) > SAME_LENS:
            contradicting.append(name)
        elif not lens.is_fisheye and not MIN_FOCAL < relative < MAX_FOCAL:
            impossible.append(name)
    if contradicting:
        name = contradicting[0]
        yield Finding(
            "focal length",
            f"the estimated focal length of {_some(contradicting)} is "
            f"{cameras[name].lens.fl_x:.0f} pixels, but EXIF specifies {evidence.focals[name]:.0f}",
            "use uncropped photos without zoom, or pass the focal length with --focal-35mm",
            is_refused=False,
        )
    if impossible:
        name = impossible[0]
        lens = cameras[name].lens
        yield Finding(
            "focal length",
            f"the estimated focal length of {_some(impossible)} is {lens.fl_x:.0f} pixels at "
            f"{lens.width}x{lens.height}, which is not plausible for a photo lens",
            "pass the focal length with --focal-35mm",
            is_refused=False,
        )


def _crops(cameras: Mapping[str, Camera]) -> Iterable[Finding]:
    """Report images with many shapes. The principal point of a cropped photo is unknown."""
    shapes: dict[float, str] = {}
    for name, camera in sorted(cameras.items()):
        size = size_of(camera)
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


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:EXAMPLES])
    return shown if len(names) <= EXAMPLES else f"{len(names)} images, such as {shown},"


def opposing_pairs(model: ColmapModel) -> set[Pair]:
    """Return the pairs of images with viewing axes that differ by more than `APART` degrees."""
    axes = {image.name: image.pose[2, :3] for image in model.images}
    return {
        (one, other)
        for one, other in combinations(sorted(axes), 2)
        if axes[one] @ axes[other] < np.cos(np.radians(APART))
    }
