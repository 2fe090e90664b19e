"""Names of the steps of a capture in progress bars."""

from __future__ import annotations

STEPS = {
    "frames": "selecting frames",
    "images": "writing images",
    "features": "extracting features",
    "matches": "matching",
    "mapping": "estimating cameras",
}
"""Text of the progress bar of each stage, in order. The first one only applies to videos."""


def step_name(stage: str, *, of_video: bool) -> str:
    """Return the name of a stage's progress bar, such as "3 of 4: matching".

    Stages that are not in `STEPS`, such as a focal length trial, have the number of the last stage
    in `STEPS`.
    """
    names = list(STEPS)[0 if of_video else 1 :]
    number = names.index(stage) + 1 if stage in names else len(names)
    return f"{number} of {len(names)}: {STEPS.get(stage, f'{STEPS[names[-1]]}, {stage}')}"
