"""Arguments of `nerfmac selftest`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from nerfmac.app.cli.declared import Shown


@dataclass(frozen=True)
class Arguments:
    """Compare the results and gradients of every kernel with its reference implementation in plain
    MLX."""

    device: Literal["all", "metal", "cuda", "cpu"] = "all"
    """Device to test. all tests every device of this machine."""
    operation: Annotated[str | None, Shown("NAME")] = None
    """Test only the kernels of this operation. `nerfmac info` lists the operations."""
    report: Annotated[Path | None, Shown("FILE")] = None
    """Also train the built-in scene, time the kernels, and write all results to this JSON file.
    Attach the file to bug reports."""
    seconds: Annotated[float | None, Shown("FLOAT")] = None
    """Training time per device in seconds. Requires --report. The value 0 skips training and
    timing. [default: 30]"""
    dump_metal: Annotated[Path | None, Shown("FOLDER")] = None
    """Write the Metal source code of every kernel to this folder instead of running the tests. This
    option also works on machines without Metal."""
