"""`Export`, the export of the scene to a file while the page stays in use."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nerfmac.app.export import KINDS, check_kind
from nerfmac.app.run import Run
from nerfmac.app.viewer.path_editor import Canceled
from nerfmac.common import appearing, make_folder
from nerfmac.config.rendering import Box, Color


class Export:
    """Export of a run, or of its part inside `crop`, a box in scene coordinates, to a new file.
    `run` writes the file on the worker thread, and calls `breathe` between its steps. The run must
    not be trained in the meantime."""

    def __init__(self, kind: str, path: Path, crop: Box | None, background: Color) -> None:
        check_kind(kind, path)
        self._crop, self._background = crop, background
        self.kind, self.path = kind, path
        self.stage, self.fraction = "", 0.0
        self._is_canceled = threading.Event()

    def cancel(self) -> None:
        """Stop the export after its current step. Any thread may call this method."""
        self._is_canceled.set()

    def status(self) -> dict[str, Any]:
        """Return the progress as JSON values for the page."""
        return {"name": self.path.name, "stage": self.stage, "done": round(self.fraction, 3)}

    def run(self, run: Run, breathe: Callable[[], None]) -> None:
        """Write the file."""

        def report(stage: str, fraction: float) -> None:
            if self._is_canceled.is_set():
                raise Canceled
            self.stage, self.fraction = stage, fraction
            breathe()

        options: dict[str, Any] = {"progress": report}
        if self._crop is not None:
            low, high = run.scene.placement.box_to_file(*self._crop)
            options["crop"] = (tuple(low.tolist()), tuple(high.tolist()))
        if self.kind == "page":
            options["background"] = self._background
        elif self.kind == "cameras":
            options = {}
        make_folder(self.path.parent)
        with appearing(self.path) as partial:
            KINDS[self.kind].write(run, partial, **options)
