"""Names of the steps of a capture in progress bars."""

from __future__ import annotations

STEPS = {
    "frames": "selecting frames",
    "images": "writing images",
    "features": "extracting features",
    "matches": "matching",
    "mapping": "estimating cameras",
}
"""Text of the progress bar of each stage, in order of execution. The first stage exists only for
videos."""


def step_name(stage: str, *, of_video: bool) -> str:
    """Return the label of the progress bar of a stage, such as "3 of 4: matching". A stage that is
    not in `STEPS`, such as a focal length trial, is labeled with the number of the last stage."""
    names = list(STEPS)[0 if of_video else 1 :]
    number = names.index(stage) + 1 if stage in names else len(names)
    return f"{number} of {len(names)}: {STEPS.get(stage, f'{STEPS[names[-1]]}, {stage}')}"
