"""The steps of a capture, as its progress bars name them."""

from __future__ import annotations

STEPS = {
    "frames": "choosing frames",
    "images": "writing images",
    "features": "finding features",
    "matches": "matching",
    "mapping": "finding cameras",
}
"""Text of each stage's progress bar, in their order; photos need no choosing."""


def step_name(stage: str, *, of_video: bool) -> str:
    """Return the name of a stage's bar, such as "3 of 4: matching".

    Stages that are not among `STEPS`, such as a trial of a focal length, are part of the last one.
    """
    names = list(STEPS)[0 if of_video else 1 :]
    number = names.index(stage) + 1 if stage in names else len(names)
    return f"{number} of {len(names)}: {STEPS.get(stage, f'{STEPS[names[-1]]}, {stage}')}"
