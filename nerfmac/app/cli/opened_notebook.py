"""File manager for JupyterLab that runs the first code cell of one notebook while the page loads,
because JupyterLab has no such setting. The page then uses the same kernel. Only JupyterLab imports
this module: `nerfmac view` passes the name of the class."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, NamedTuple

import nbformat
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from traitlets import Unicode

PATIENCE = 60.0  # Maximum time in seconds that the page waits for the cell to finish.
KERNEL = "python3"


class _Ran(NamedTuple):
    """Source code and results of the first code cell after it has run."""

    source: str
    number: int  # Execution count that the page shows next to the cell.
    outputs: list[dict[str, Any]]
    when: datetime


class OpenedNotebook(AsyncLargeFileManager):
    """File manager of JupyterLab that runs the first code cell of the notebook at `notebook`."""

    notebook = Unicode(config=True)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        server: Any = self.parent
        self._server = server
        loop = server.io_loop.asyncio_loop  # The loop is not running yet.
        self._running: asyncio.Task[_Ran] = loop.create_task(self._run())

    async def get(
        self, path: str, content: bool = True, *arguments: Any, **options: Any
    ) -> dict[str, Any]:
        """Return a file model. For `notebook`, the outputs of its first code cell are added.

        After the page has saved the notebook, the file itself contains the outputs.
        """
        is_ours = content and path.strip("/") == self.notebook
        if is_ours:
            await asyncio.wait({self._running}, timeout=PATIENCE)
        model: dict[str, Any] = await super().get(path, content, *arguments, **options)
        if not is_ours or not self._running.done():
            return model
        if error := self._running.exception():
            self.log.warning("cannot run the first cell of %s: %s", path, error)
            return model
        ran = self._running.result()
        if model["type"] == "notebook" and model["last_modified"] < ran.when:
            cell = first_code_cell(model["content"])
            if cell is not None and cell["source"] == ran.source:
                cell.update(outputs=ran.outputs, execution_count=ran.number)
                cell["metadata"]["trusted"] = True  # The page shows widgets of trusted cells only.
        return model

    async def _run(self) -> _Ran:
        """Start the kernel of the notebook and run the first code cell in this kernel."""
        model = await super().get(self.notebook, type="notebook")
        cell = first_code_cell(model["content"])
        if cell is None:
            raise ValueError("the notebook has no code cell")
        session = await self._server.session_manager.create_session(
            path=self.notebook, name=self.notebook, type="notebook", kernel_name=KERNEL
        )
        client = self._server.kernel_manager.get_kernel(session["kernel"]["id"]).client()
        outputs: list[dict[str, Any]] = []

        def keep(message: dict[str, Any]) -> None:
            if message["msg_type"] in ("stream", "display_data", "execute_result", "error"):
                outputs.append(nbformat.v4.output_from_msg(message))

        client.start_channels()
        try:
            await client.wait_for_ready(timeout=PATIENCE)
            when, source = datetime.now(UTC), cell["source"]
            reply = await client.execute_interactive(source, allow_stdin=False, output_hook=keep)
        finally:
            client.stop_channels()
        return _Ran(source, reply["content"]["execution_count"], outputs, when)


def first_code_cell(notebook: dict[str, Any]) -> Any:
    """Return the first code cell of a notebook, or None."""
    return next((cell for cell in notebook["cells"] if cell["cell_type"] == "code"), None)
