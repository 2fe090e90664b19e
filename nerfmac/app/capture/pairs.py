"""Selection of the image pairs to match: neighbors in name order, images from nearby cameras, and
images with similar features."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from nerfmac.common import Float32Array, Float64Array, UInt8Array

Pairs = list[tuple[str, str]]
Counts = Mapping[tuple[str, str], int]
"""Number of matches that fit an epipolar geometry, keyed by the sorted names of two images."""
MATCHED = 30
"""Minimum number of matches in a matching pair. With fewer, COLMAP does not register images."""
VERIFIED = 15  # Minimum number of matches of a pair that COLMAP considers verified.
WALKED = 0.8
"""Minimum fraction of consecutive images that match if the name order is the order of capture."""
FARTHER = (5, 6, 7, 8)
"""Distances in name order of the images with which consecutive images are compared."""
SHARPER = 1.5
"""Minimum ratio of the median number of matches of consecutive images and of images that are
farther apart, if the name order is the order of capture."""
WINDOW = 10  # Number of next images to match, for `--matching sequential`.
SIMILAR = 25  # Number of similar images to match with each image, for `--matching similar`.
NEAREST = 12  # Maximum number of nearby cameras that each camera is additionally paired with.
SIFT_COSINE = np.cos(np.radians(35.0))
"""Cosine of the maximum angle between viewing axes for reliable SIFT matches."""
WORDS, SAMPLED, ITERATIONS = 64, 300, 8
"""Numbers of visual words, of features per image that determine them, and of k-means iterations."""

Item = TypeVar("Item")


def sorted_pair(one: str, other: str) -> tuple[str, str]:
    """Return two names in the order in which pairs of images are stored."""
    return min(one, other), max(one, other)


def in_sequence(items: Sequence[Item], window: int = WINDOW) -> list[tuple[Item, Item]]:
    """Pair each item with the next `window` items in the order of capture.

    Items that are farther apart in the list are not paired, because images of opposite sides of an
    object such as a can would match if both sides look alike. Structure from motion would then
    place all cameras on the same side of the object.
    """
    return [
        (item, following)
        for index, item in enumerate(items)
        for following in items[index + 1 : index + 1 + window]
    ]


def in_space(poses: Mapping[str, Float64Array], radius: float, known: Pairs) -> Pairs:
    """Return sorted pairs of cameras that are nearby and look in similar directions, except the
    `known` pairs.

    If the camera returns to an earlier position, these pairs close the loop. A camera is paired
    with at most `NEAREST` others, at most `radius` world units away, if the viewing axes differ by
    less than 35 degrees. `poses` contains camera-to-world poses (3, 4) with OpenGL axes.
    """
    names = sorted(poses)
    eyes = np.stack([poses[name][:, 3] for name in names])
    axes = np.stack([poses[name][:, 2] for name in names])
    before, pairs = {frozenset(pair) for pair in known}, set()
    for index, name in enumerate(names):
        distance = np.linalg.norm(eyes - eyes[index], axis=1)
        fits = (distance < radius) & (axes @ axes[index] > SIFT_COSINE)
        others = [names[other] for other in np.argsort(distance, kind="stable") if fits[other]]
        new = [other for other in others if other != name and {name, other} not in before]
        pairs |= {sorted_pair(name, other) for other in new[:NEAREST]}
    return sorted(pairs)


def most_similar(names: Sequence[str], likeness: npt.NDArray[np.floating[Any]]) -> Pairs:
    """Return the sorted pairs of each image with the `SIMILAR` images of the largest `likeness`
    (n, n)."""
    np.fill_diagonal(likeness, -np.inf)
    nearest = np.argsort(-likeness, axis=1, kind="stable")[:, : min(SIMILAR, len(names) - 1)]
    return sorted(
        {sorted_pair(names[one], names[other]) for one, row in enumerate(nearest) for other in row}
    )


def similarity(features: Sequence[UInt8Array], bar: Any) -> Float32Array:
    """Return the similarity (n, n) of all pairs of images, from their SIFT features, without
    matching them. `bar` counts images.

    The similarity is the cosine between VLAD descriptors (Jégou et al. 2010): for each visual word,
    the normalized sum of the differences between the features of an image and the word. The words
    are the k-means clusters of features of these images.
    """
    random = np.random.default_rng(0)
    sample = np.concatenate([random.permutation(each)[:SAMPLED] for each in features])
    words = random.permutation(sample)[:WORDS].astype(np.float32)

    def nearest(found: np.ndarray) -> np.ndarray:
        scores = found @ words.T - 0.5 * np.square(words).sum(axis=1)
        # If no image has a feature, there are no words.
        return scores.argmax(axis=1) if scores.size else np.zeros(len(found), np.intp)

    for _ in range(ITERATIONS):
        word = nearest(sample)
        for number in np.unique(word):
            words[number] = sample[word == number].mean(axis=0)
    rows = np.zeros((len(features), *words.shape), np.float32)
    for sums, found in zip(rows, features, strict=True):
        member = (nearest(found)[:, None] == np.arange(len(words))).astype(np.float32)
        sums += member.T @ found - member.sum(axis=0)[:, None] * words
        sums /= np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-6)
        sums /= np.maximum(np.linalg.norm(sums), 1e-6)
        bar.update(1)
    return np.tensordot(rows, rows, ((1, 2), (1, 2)))


def why_no_walk(names: Sequence[str], counts: Counts) -> str:
    """Return why the name order is probably not the order of capture, or an empty text if it is.

    In the order of capture, most consecutive images match, and they have more matches than images
    that are farther apart.
    """
    near = np.array([_count(pair, counts) for pair in in_sequence(names, 1)])
    far = [
        _count((names[index], names[index + gap]), counts)
        for gap in FARTHER
        for index in range(len(names) - gap)
    ]
    matched = int((near >= VERIFIED).sum())
    if matched < max(WALKED * len(near), 1):
        return f"only {matched} of {len(near)} pairs of consecutive images match"
    if far and float(np.median(near)) < SHARPER * float(np.median(far)):
        return "images that are far apart in the order of their names match as well as neighbors"
    return ""


def linked(names: Sequence[str], counts: Counts) -> int:
    """Return the size of the largest group of images that matches of neighbors connect."""
    pairs = [pair for pair in in_sequence(names) if _count(pair, counts) >= MATCHED]
    group = {name: {name} for name in names}
    for one, other in pairs:
        if group[one] is not group[other]:
            group[one] |= group[other]
            group.update(dict.fromkeys(group[other], group[one]))
    return max(map(len, group.values()), default=0)


def _count(pair: tuple[str, str], counts: Counts) -> int:
    return counts.get(sorted_pair(*pair), 0)
