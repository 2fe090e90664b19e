"""What may end a verb early, as one line that says what of its work is kept and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from nerfmac.backend.faults import in_words, is_out_of_memory
from nerfmac.common.checks import InputError
from nerfmac.ranks import LostRankError
from nerfmac.run import Run, what_to_lower
from nerfmac.training.measured import DivergedError


@contextmanager
def keeping(kept: str) -> Iterator[None]:
    """Within it, a `KeyboardInterrupt` says what is `kept`, and how to go on."""
    try:
        yield
    except KeyboardInterrupt as interruption:
        raise KeyboardInterrupt(kept) from interruption


@contextmanager
def explained(
    run: Run, out: Path, limits: Mapping[str, float | None], needed: Mapping[str, int]
) -> Iterator[None]:
    """Within it, `run` is trained to the `limits`, by their flags, and saved in `out`.

    `needed`: `needed_memory` of the run. Raises `InputError` where something ends it, and
    `KeyboardInterrupt` that says the same.
    """
    given = "".join(f" {flag} {value}" for flag, value in limits.items() if value)
    again = f"`nerfmac train --out {out} --resume{given}` goes on"
    try:
        yield
    except KeyboardInterrupt as interruption:
        said = f"step {run.state.step} is saved in {out}; {again}"
        raise KeyboardInterrupt(said) from interruption
    except DivergedError as error:
        raise InputError(f"{error}; the last good state is in {out}") from error
    except LostRankError as error:
        left = f"the state after step {run.state.step} is in {out}"
        raise InputError(f"{error}; {left}; {again}") from error
    except RuntimeError as error:
        if (told := in_words(error)) is None:
            raise
        saved = f"{told}; step {run.state.step} is saved in {out}"
        what_now = f"lower {what_to_lower(needed)}" if is_out_of_memory(error) else again
        raise InputError(f"{saved}; {what_now}") from error
