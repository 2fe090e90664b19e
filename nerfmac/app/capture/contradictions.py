"""Pairs of images whose matches contradict the camera poses.

If an object looks the same from two sides, structure from motion may place all cameras on one side
("folding"). Matches between images of two similar sides are wrong, but the images before and after
each other in a video or a walk around the object do show the same content. A single contradicting
pair is no proof: folding moves many cameras far.

If the images of two cameras overlap, sparse points of both images that are close to each other
should be the same points (Heinly et al., Correcting for duplicate scene structure in sparse 3D
reconstruction, 2014). Otherwise, nearby cameras have different backgrounds.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import combinations, pairwise, product

import numpy as np
import numpy.typing as npt

from nerfmac.app.capture.findings import SURROUNDINGS, Evidence, Finding, some_of
from nerfmac.app.capture.pairs import in_sequence, sorted_pair
from nerfmac.app.capture.two_views import CameraMap, Pair, agreements
from nerfmac.app.scenes.readers.colmap_model import ColmapModel
from nerfmac.common import Float64Array
from nerfmac.geometry import Camera, angle_between, in_image

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
JUMP = 2.5
"""Distance or angle of consecutive cameras, relative to the median, above which a part of the
cameras is on the wrong side. Folding moves many cameras far."""
GRID, CELL_POINTS = 8, 3
"""Rows and columns of the cells of an image in which sparse points are compared, and the minimum
number of points of each image in a cell."""
CONFLICT, MIN_CELLS = 0.5, 6
"""Fraction of cells with different content above which two images show different places, and
minimum number of compared cells."""
NEARBY, NEARBY_ANGLE = 0.4, 25.0
"""Maximum distance of two cameras relative to the median depth, and maximum angle in degrees, for
comparing their content."""
MIN_CONFLICTS = 3  # Minimum number of pairs of cameras with different backgrounds.


def contradictions(evidence: Evidence) -> Iterable[Finding]:
    """Report pairs of images with many matches that contradict the poses."""
    matches, cameras = evidence.matches, evidence.cameras
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
        yield from _against_order(evidence, wrong, agreeing)
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
    evidence: Evidence, wrong: Sequence[Pair], agreeing: Mapping[Pair, float]
) -> Iterable[Finding]:
    """Report poses that contradict the order of capture. `wrong` contains the pairs of images with
    matches that contradict the poses, and `agreeing` the agreement of all pairs."""
    cameras = evidence.cameras
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
    elif jump := next(iter(_jumps(evidence)), None):
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
            f"the {subject.format(some_of(doubtful))} {len(torn)} of {len(close)} pairs of "
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
    names: Sequence[str], torn: Container[Pair], counts: Mapping[Pair, int], cameras: CameraMap
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


def _apart(cameras: CameraMap, one: str, other: str) -> str:
    return f"{angle_between(cameras[one], cameras[other]):.0f} degrees"


def _jumps(evidence: Evidence) -> Iterable[Pair]:
    """Return consecutive images without common points that look in very different directions, if
    images between them are missing. Photos may be taken from separate places, but only a wrong
    reconstruction places the cameras on both sides of missing images at random."""
    cameras, points = evidence.cameras, evidence.points
    index = {image.name: number for number, image in enumerate(evidence.images)}
    names = [name for name in index if name in cameras]
    for one, other in in_sequence(names, 1):
        is_gap = index[other] - index[one] > 1
        shared = np.intersect1d(points[one], points[other])
        if is_gap and len(shared) < SHARED and angle_between(cameras[one], cameras[other]) > APART:
            yield sorted_pair(one, other)


def opposing_pairs(model: ColmapModel) -> set[Pair]:
    """Return the pairs of images with viewing axes that differ by more than `APART` degrees."""
    axes = {image.name: image.pose[2, :3] for image in model.images}
    return {
        (one, other)
        for one, other in combinations(sorted(axes), 2)
        if axes[one] @ axes[other] < np.cos(np.radians(APART))
    }


def different_backgrounds(evidence: Evidence) -> Iterable[Finding]:
    """Report nearby cameras with verified matches and different backgrounds."""
    conflicts, compared = [], 0
    cameras, positions = evidence.cameras, evidence.model.points
    depth = {name: _depth(cameras[name], positions[evidence.points[name]]) for name in cameras}
    for one, other in evidence.matches:
        if one not in cameras or other not in cameras:
            continue
        away = np.linalg.norm(cameras[one].pose[:, 3] - cameras[other].pose[:, 3])
        is_near = away < NEARBY * min(depth[one], depth[other])
        if is_near and angle_between(cameras[one], cameras[other]) <= NEARBY_ANGLE:
            conflicting, cells = _cells(evidence, one, other)
            compared += cells >= MIN_CELLS
            if cells >= MIN_CELLS and conflicting > CONFLICT * cells:
                conflicts.append((one, other))
    if len(conflicts) >= MIN_CONFLICTS:
        one, other = conflicts[0]
        yield Finding(
            "background",
            f"{len(conflicts)} of {compared} pairs of nearby cameras, such as {one} and {other}, "
            "show the same object in front of different backgrounds: two objects, or two sides of "
            "an object, that look alike have probably been confused",
            SURROUNDINGS,
        )


def _cells(evidence: Evidence, one: str, other: str) -> tuple[int, int]:
    """Return the number of cells with different content of two images, and of all cells that can be
    compared. A cell differs if it contains points of each image, but none that both observe."""
    points, positions = evidence.points, evidence.model.points
    common = np.intersect1d(points[one], points[other])
    alone = [np.setdiff1d(points[name], common) for name in (one, other)]
    cells = conflicting = 0
    for camera in (evidence.cameras[one], evidence.cameras[other]):
        shared = _counts(camera, positions[common])
        first, second = (_counts(camera, positions[rows]) for rows in alone)
        differs = (np.minimum(first, second) >= CELL_POINTS) & (shared == 0)
        conflicting += int(differs.sum())
        cells += int(differs.sum() + (shared > 0).sum())
    return conflicting, cells


def _depth(camera: Camera, positions: Float64Array) -> float:
    """Return the median depth of points (n, 3) in a camera, or 0 without points."""
    ahead = (camera.pose[:, 3] - positions) @ camera.pose[:, 2]
    return float(np.median(ahead)) if len(positions) else 0.0


def _counts(camera: Camera, positions: Float64Array) -> npt.NDArray[np.intp]:
    """Return the number of points (GRID, GRID) in each cell of an image."""
    position, is_inside = in_image(positions, camera.pose.astype(np.float64), camera.lens.tangents)
    column, row = ((position[is_inside] + 1) * (GRID / 2)).astype(np.intp).T
    return np.bincount(GRID * row + column, minlength=GRID**2).reshape(GRID, GRID)
