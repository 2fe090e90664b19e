"""Similarity of images, computed from their features without matching them."""

from pathlib import Path
from typing import Any

import numpy as np

WORDS, SAMPLED, ITERATIONS = 64, 300, 8
"""Numbers of visual words, of features per image that determine them, and of k-means iterations."""


def compare(pycolmap: Any, folder: Path, numbered: Any) -> None:
    """Write the names of the images and the similarity (n, n) of all pairs.

    The similarity is the cosine between VLAD descriptors (Jégou et al. 2010): for each visual word,
    the normalized sum of the differences between the features of an image and the word. The words
    are the k-means clusters of features of these images.
    """
    with pycolmap.Database.open(folder / "database.db") as opened:
        images = opened.read_all_images()
        found = [opened.read_descriptors(image.image_id).data for image in images]
    random = np.random.default_rng(0)
    sample = np.concatenate([random.permutation(each)[:SAMPLED] for each in found])
    words = random.permutation(sample)[:WORDS].astype(np.float32)

    def nearest(features: np.ndarray) -> np.ndarray:
        scores = features @ words.T - 0.5 * np.square(words).sum(axis=1)
        # If no image has a feature, there are no words.
        return scores.argmax(axis=1) if scores.size else np.zeros(len(features), np.intp)

    for _ in range(ITERATIONS):
        word = nearest(sample)
        for number in np.unique(word):
            words[number] = sample[word == number].mean(axis=0)
    rows = np.zeros((len(images), *words.shape), np.float32)
    for sums, features in zip(rows, found, strict=True):
        member = (nearest(features)[:, None] == np.arange(len(words))).astype(np.float32)
        sums += member.T @ features - member.sum(axis=0)[:, None] * words
        sums /= np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-6)
        sums /= np.maximum(np.linalg.norm(sums), 1e-6)
        print(1, flush=True)
    names = [numbered.given(image.name) for image in images]
    similarity = np.tensordot(rows, rows, ((1, 2), (1, 2)))
    np.savez(folder / "similar.npz", names=names, similarity=similarity)
