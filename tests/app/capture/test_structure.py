"""Sequential matching of ordered images, its fallback, and images without a camera."""

from contextlib import nullcontext
from itertools import combinations, pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from nerfmac.app.capture import pairs, structure
from nerfmac.app.capture.findings import Finding, Verdict
from nerfmac.app.capture.inputs import CapturedImage
from nerfmac.app.capture.structure import NoCamerasError, Solver
from tests.app.capture.structures import ring_of

NAMES = [f"{number:02}.png" for number in range(20)]


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Simulate matching of twenty photos: results in image order and otherwise, and a record."""
    done = {"neighbors": 99, "broken_at": None, "sequential": (20, 0), "any": (20, 0)}
    done |= {"pairs": [], "mapped": []}

    def match(self, pairs):
        done["pairs"].append((self.folder.name, len(pairs)))
        (self.folder / "database.db").touch()

    @property
    def counts(self):
        walked = dict.fromkeys(pairwise(NAMES), done["neighbors"])
        return {pair: count for pair, count in walked.items() if pair[1] != done["broken_at"]}

    def drafted(self, to, kept, mapper):
        done["mapped"].append(to)
        return ring_of(20, scale=1.0, rotation=np.eye(3), offset=np.zeros(3)).model, {}

    def mapped(self, matching, to="sparse", kept=None):
        done["mapped"].append(to if kept else matching)
        found, wrong = done["sequential" if matching == "sequential" else "any"]
        found, wrong = done.get(to, (found, wrong))
        if not found:
            raise NoCamerasError("no two")
        ring = ring_of(found, scale=1.0, rotation=np.eye(3), offset=np.zeros(3))
        verdict = Verdict((Finding("order", "two sides look alike", "record again"),) * wrong)
        return ring._replace(matching=matching, verdict=verdict)

    def run(self, stage, total, shown=""):
        done["pairs"].append((self.folder.name, stage))

    stubs = {"_match": match, "_counts": counts, "_model": drafted, "_map": mapped, "run": run}
    for name, stub in stubs.items():
        monkeypatch.setattr(Solver, name, stub)
    monkeypatch.setattr(pairs, "in_space", lambda *_: [])
    likeness = np.random.default_rng(0).uniform(size=(20, 20))
    monkeypatch.setattr(pairs, "similarity", lambda *_: likeness)
    monkeypatch.setattr(structure, "read_features", lambda *_: dict.fromkeys(NAMES))
    images = [CapturedImage(name, 64, 48, 0.0) for name in NAMES]
    (tmp_path / "work").mkdir()
    done["solver"] = Solver(tmp_path / "work", tmp_path, images, lambda *_: nullcontext())
    return done


@pytest.mark.parametrize(
    ("neighbors", "matching", "pairs", "told"),
    [
        (99, "sequential", [("work", 145)], "using sequential matching, because the names follow"),
        (
            *(3, "similar", [("work", 145), ("more", 190)]),
            "matching more pairs, because only 0 of 19 pairs of consecutive images match",
        ),
    ],
)
def test_a_walk_is_compared_in_its_order_alone_and_others_with_similar_images(
    photos, caplog, neighbors, matching, pairs, told
):
    caplog.set_level("INFO", "nerfmac")
    photos["neighbors"] = neighbors
    assert photos["solver"].solve("auto").matching == matching
    assert photos["pairs"] == [("work", "features"), *pairs]
    assert photos["mapped"] == [matching]
    assert caplog.messages[0].startswith(told)


@pytest.mark.parametrize(
    ("in_order", "in_any", "chosen"),
    [
        ((12, 0), (20, 0), "similar"),
        ((18, 0), (20, 1), "sequential"),
        ((18, 0), (18, 0), "sequential"),
        ((0, 0), (7, 0), "similar"),
    ],
)
def test_where_the_order_leaves_something_out_what_agrees_more_is_chosen(
    photos, caplog, in_order, in_any, chosen
):
    caplog.set_level("INFO", "nerfmac")
    photos["sequential"], photos["any"] = in_order, in_any
    found = photos["solver"].solve("auto")
    assert found.matching == chosen
    assert len(found.model.images) == (in_order if chosen == "sequential" else in_any)[0]
    assert photos["mapped"] == ["sequential", "similar"]
    reason = f"sequential matching found {in_order[0]} of 20 cameras" if in_order[0] else "failed"
    assert reason in caplog.messages[0]
    if in_order[0]:
        assert caplog.messages[-1].startswith(f"using {chosen} matching: ")


def test_cameras_that_contradict_the_order_are_estimated_again_from_fewer_pairs(photos):
    photos["sequential"] = 20, 1
    photos["repaired-3"], photos["repaired-2"] = (20, 1), (20, 0)
    found = photos["solver"].solve("auto")
    assert photos["mapped"] == ["sequential", "draft", "repaired-3", "draft", "repaired-2"]
    assert not found.verdict.is_refused
    assert found.tried == tuple(f"matches of the next {n} images only" for n in (3, 2))


@pytest.mark.parametrize(
    ("in_any", "chosen", "mapped"),
    [
        ((20, 0), "similar", ["similar"]),
        ((20, 1), "sequential", ["similar", "sequential"]),
        ((18, 0), "similar", ["similar", "sequential"]),
    ],
)
def test_a_walk_that_breaks_off_is_mapped_in_its_order_only_if_nothing_else_is_whole(
    photos, in_any, chosen, mapped
):
    photos["broken_at"] = "12.png"
    photos["sequential"], photos["any"] = (12, 0), in_any
    assert photos["solver"].solve("auto").matching == chosen
    assert photos["mapped"] == mapped


def test_each_image_is_paired_with_the_most_similar_images(monkeypatch):
    monkeypatch.setattr(pairs, "SIMILAR", 2)
    angles = np.radians([0.0, 40.0, 5.0, 45.0, 180.0])
    similarity = np.cos(angles[:, None] - angles)
    found = pairs.most_similar(list("abcde"), similarity)
    assert ["".join(pair) for pair in found] == ["ab", "ac", "bc", "bd", "be", "cd", "de"]


@pytest.mark.parametrize("size", [2, 5])
def test_few_images_are_all_paired(size):
    names = list("abcde")[:size]
    assert pairs.most_similar(names, np.eye(size)) == list(combinations(names, 2))


def test_the_reason_against_an_order_is_what_was_counted():
    names = list("abcdefghij")
    walk = dict.fromkeys(pairwise(names), 99)
    assert pairs.why_no_walk(names, walk) == ""
    few = dict.fromkeys(list(pairwise(names))[:4], 99)
    assert pairs.why_no_walk(names, few) == "only 4 of 9 pairs of consecutive images match"
    alike = dict.fromkeys(combinations(names, 2), 99)
    assert "far apart" in pairs.why_no_walk(names, alike)
    assert pairs.why_no_walk(["a"], {}) != ""


def test_images_with_the_same_features_are_the_most_similar():
    """Four images, of which two and two show many of the same features."""
    random = np.random.default_rng(4)
    shared = random.uniform(0, 255, (2, 400, 128))
    others = random.uniform(0, 255, (4, 200, 128))
    features = [np.concatenate([shared[n % 2], others[n]]).astype(np.uint8) for n in range(4)]
    features.append(np.zeros((0, 128), np.uint8))  # An image without features.
    found = pairs.similarity(features, SimpleNamespace(update=lambda count: None))
    assert np.isfinite(found).all()
    assert np.diag(found)[:4] == pytest.approx(1.0, abs=1e-5)
    np.fill_diagonal(found, -1.0)
    assert found.argmax(axis=1)[:4].tolist() == [2, 3, 0, 1]
    assert min(found[0, 2], found[1, 3]) > found[0, 1] + 0.2
