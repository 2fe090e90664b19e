"""`Viewer`: the notebook widget. Watch a scene while it trains, fly around in it, film it.

A callback may run on any thread, so all it does is to hand the page's message on; what the worker
makes of it goes back through `send`, which any thread may call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import anywidget
import mlx.core as mx
import traitlets
from IPython.display import DisplayHandle, Image, display
from tqdm.auto import tqdm

from nerfmac.backend import choose_device
from nerfmac.config import Config
from nerfmac.paths import CameraPath
from nerfmac.run import Run, check_free, configured, is_run
from nerfmac.scenes import Scene, load_scene
from nerfmac.training.trainer import Trainer
from nerfmac.viewer.camera.navigation import View
from nerfmac.viewer.page.source import script, style
from nerfmac.viewer.session.session import Message, Session
from nerfmac.viewer.worker import the_worker

T = TypeVar("T")


class Viewer(anywidget.AnyWidget):
    """A live view of a scene in training, or of a trained run; shown as a cell's last expression.

    Training and rendering go on in the background, also while other cells run and when no page is
    open. All methods may be called from any cell; numbers are checked and refused with an
    `InputError`.
    """

    _esm = script()
    _css = style()
    _is_open = False  # also of one whose making failed, which is closed like any other
    still = traitlets.Bytes(b"").tag(sync=True)
    """The last finished picture, JPEG: what a page without a kernel shows."""

    def __init__(
        self,
        source: Run | Scene | str | Path,
        *,
        preset: str = "auto",
        device: str = "auto",
        seed: int = 0,
        config: Config | None = None,
        out: str | Path | None = None,
    ) -> None:
        """
        Args:
            source: a scene, to be trained, or a run, to be looked at or trained on; or the folder
                of either.
            preset, device, seed, config: of a new run, as in `nerfmac.train`.
            out: a folder to save a new run in: at first, every half minute, when training stops.
        """
        super().__init__()
        choose_device(device)
        if isinstance(source, Run):
            mx.eval(source.state.arrays())  # only finished arrays may change the thread
        self._worker = the_worker()
        folder = Path(out) if out is not None else None
        self._session = self._do(
            lambda: Session(
                self._worker,
                _opened(source, preset, seed, config, folder),
                self._tell,
                self._keep,
                folder,
            )
        )
        self._picture: DisplayHandle | None = None
        _hear_while_cells_run(self.comm)
        self._worker.add(self._session)
        self._is_open = True
        self.on_msg(self._hear)

    @property
    def run(self) -> Run:
        """The run as it stands: to render, evaluate or save, whatever is trained meanwhile."""
        return self._do(self._session.snapshot)

    @property
    def view(self) -> View:
        """Where the camera stands. May be set."""
        return self._session.view

    @view.setter
    def view(self, view: View) -> None:
        self._change(lambda: self._session.go(view))

    @property
    def path(self) -> CameraPath:
        """The keyframes and the path through them. May be set."""
        return self._session.studio.path

    @path.setter
    def path(self, path: CameraPath) -> None:
        def change() -> None:
            self._session.studio.path = path

        self._change(change)

    def set(self, **values: Any) -> None:
        """Change what the page's controls do: mode, background, fov (degrees), exposure (stops),
        crop, share (of the device for training), rate (factor), rays, steps, seconds."""
        self._change(lambda: self._session.set(**values))

    def train(self, steps: int | None = None, seconds: float | None = None) -> None:
        """Train on in the background, to `steps` in all or `seconds` of training in all."""

        def start() -> None:
            self._session.set(steps=steps, seconds=seconds)
            self._session.start()

        self._change(start)

    def pause(self) -> None:
        """Stop training, soon; `train` goes on from there."""
        self._change(self._session.training.pause)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing is trained; return whether that is so.

        Raises what ended training, if it was a failure. Interrupting ends the wait alone.
        """
        is_resting = self._session.is_resting.wait(timeout)
        if is_resting and self._session.failure is not None:
            raise self._session.failure
        return is_resting

    def save(self, folder: str | Path) -> None:
        """Save the run as it stands."""
        self._do(lambda: self._session.training.save(Path(folder)))

    def render_video(
        self,
        path: str | Path,
        *,
        seconds: float = 4.0,
        fps: float = 24.0,
        size: tuple[int, int] = (640, 480),
        progress: bool = True,
    ) -> Path:
        """Film along the keyframes, or without two of them around the scene, to an MP4 file.

        As it looks on the page, mode and background included. Interrupting leaves no file.
        """
        film = self._do(lambda: self._session.film(str(path), seconds, fps, size)).start()
        bar = tqdm(total=film.total, desc="frames", unit="frame", disable=not progress)
        try:
            while not film.result.done():
                film.wait(0.1)
                bar.update(film.done - bar.n)
            return film.result.result()
        finally:
            film.cancel()
            bar.close()

    def close(self) -> None:
        """Stop for good, save if that was asked for, and take the widget off the page."""
        if self._is_open:
            self._is_open = False
            self._worker.remove(self._session, self._session.training.pause)
        super().close()

    def _ipython_display_(self) -> None:
        """Show the widget, and under it a picture for pages that have no kernel for a widget.

        The style sheet hides the picture as long as the widget is alive.
        """
        bundle = self._repr_mimebundle_()
        display(bundle[0] if bundle else {}, raw=True)
        if self._picture is None:
            self._picture = display({"text/plain": ""}, raw=True, display_id=True)
        else:
            self._picture.display({"text/plain": ""}, raw=True)
        self._keep(self.still)

    def _keep(self, jpeg: bytes) -> None:
        """Let `jpeg` be what is seen without a kernel."""
        self.still = jpeg
        if jpeg and self._picture is not None:
            self._picture.update(Image(jpeg, format="jpeg"))

    def _do(self, task: Callable[[], T]) -> T:
        return self._worker.submit(task).result()

    def _change(self, task: Callable[[], None]) -> None:
        self._do(task)
        self._worker.wake(self._session)

    def _hear(self, _widget: Any, message: Message, _buffers: list[memoryview]) -> None:
        self._session.post(message)

    def _tell(self, message: Message, buffers: list[bytes]) -> None:
        self.send(message, buffers)


def _hear_while_cells_run(comm: Any) -> None:
    """Let the page's messages come through while the kernel's main thread runs a cell.

    JupyterLab sends them to a subshell of the kernel, a thread of its own. ipykernel 7 sends them
    on to the shell of whoever last spoke to the page, which is the main one: all cells are its.
    """
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda _data, asked: asked


def _opened(
    source: Run | Scene | str | Path,
    preset: str,
    seed: int,
    config: Config | None,
    out: Path | None,
) -> Run:
    """The run to view; a new one if `source` is a scene. Raises `InputError`."""
    if isinstance(source, Run):
        # A trainer of the worker's own: what is compiled belongs to a thread.
        return replace(source, trainer=Trainer(source.config, source.scene.extent))
    if not isinstance(source, Scene):
        folder = Path(source).expanduser()
        if is_run(folder):
            return Run.load(folder)
        source = load_scene(folder)
    if out is not None:
        check_free(out)
    run = Run.begin(source, config or configured(preset, seed))
    if out is not None:
        run.save(out)
    return run
