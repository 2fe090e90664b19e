"""Findings about a reconstruction, the evidence for them, and the verdict that they form."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nerfmac.app.capture.two_views import CapturedImage, Matches
from nerfmac.app.scenes.readers.colmap_model import ColmapModel
from nerfmac.common import Fields, InputError, Int64Array, read_as, read_fields
from nerfmac.geometry import Camera

CONTRADICTIONS = ("order", "jump", "background")
"""Kinds of findings that estimating the cameras from fewer pairs may avoid."""
RECORD = "capture.json"  # File with the report on a capture, in the folder of the scene.
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


WALK = (
    "walk around the subject instead of turning in place, so that each photo is taken from another "
    "position"
)
SURROUNDINGS = "record again in smaller steps, with more of the surroundings in each image"


@dataclass(frozen=True, eq=False)
class Evidence:
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

    @cached_property
    def cameras(self) -> dict[str, Camera]:
        """Estimated cameras, by image name."""
        lenses = {number: each.lens("camera") for number, each in self.model.cameras.items()}
        return {i.name: Camera(lenses[i.camera], i.camera_to_file) for i in self.model.images}

    @cached_property
    def points(self) -> dict[str, Int64Array]:
        """Row numbers in `model.points` of the points that each image observes."""
        row = {int(number): index for index, number in enumerate(self.model.numbers)}
        return {
            image.name: np.array([row[int(p)] for p in image.points if int(p) in row], np.int64)
            for image in self.model.images
        }

    @property
    def focals(self) -> dict[str, float]:
        """Focal lengths from EXIF in pixels, by image name, if known."""
        return {image.name: image.focal for image in self.images if image.focal}


def some_of(names: Sequence[str]) -> str:
    """Return a list of names, or their number with examples."""
    shown = ", ".join(names[:EXAMPLES])
    return shown if len(names) <= EXAMPLES else f"{len(names)} images, such as {shown},"


def stored_verdict(path: Path | None) -> Verdict:
    """Return the verdict on the camera poses that `capture_scene` stored in the folder of a scene.
    The verdict has no findings if the folder contains no capture of this version. `path` is the
    path of the scene, or None for a scene in memory."""
    record = path and (path if path.is_dir() else path.parent) / RECORD
    stored = read_fields(record) if record and record.is_file() else Fields({}, RECORD)
    with suppress(InputError):
        return read_as(Verdict, stored.object("verdict"))
    return Verdict()
