"""`Viewer`, the notebook widget for watching training, exploring the scene, and rendering videos.

Any thread may receive messages from the page and pass them to the loop of the session. Any thread
may call `send`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import wait
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from weakref import WeakSet

import anywidget
import mlx.core as mx
import traitlets
from IPython.display import DisplayHandle, Image, display
from tqdm.auto import tqdm

from nerfmac.app.capture import captured, stored_verdict
from nerfmac.app.export import joined_modules, source_of
from nerfmac.app.paths import CameraPath, View
from nerfmac.app.run import CONFIGURED, HeldOut, Run, Training, check_unused, is_run, read_history
from nerfmac.app.scenes import Scene, load_scene
from nerfmac.app.snapshots import is_snapshot, open_run
from nerfmac.app.viewer.live_training import Preview
from nerfmac.app.viewer.loop import Loop
from nerfmac.app.viewer.path_editor import VideoJob
from nerfmac.app.viewer.session import Session
from nerfmac.app.viewer.worker import the_worker
from nerfmac.backend import choose_device
from nerfmac.common import log, user_path
from nerfmac.config import Config
from nerfmac.training.method import Method

T = TypeVar("T")


UNSAVED = (
    "another viewer has %d steps of %s that are not saved; save them with "
    "nerfmac.Viewer.unsaved()[0].save(FOLDER), and close that viewer with .close()"
)


SAVED = source_of("viewer/page/saved.html")
"""HTML of the text above the saved image. JupyterLab shows the text if the widget has no kernel."""


class Viewer(anywidget.AnyWidget):
    """Live view of a scene during training, or of a trained run.

    If a viewer is the last expression of a cell, the notebook displays it. Training and rendering
    run in the background, even while other cells run or no page is open. The methods of the viewer
    may be called from any cell.
    """

    _esm = joined_modules("viewer/page/main.js")
    _css = source_of("viewer/page/viewer.css")
    _is_open = False  # On the class, because a viewer is also closed if its `__init__` fails.
    _opened: ClassVar[WeakSet[Viewer]] = WeakSet()
    _session: Session
    still = traitlets.Bytes(b"").tag(sync=True)
    """Last finished image as a JPEG file. Pages without a kernel show this image."""

    def __init__(
        self,
        source: Run | Scene | str | Path,
        config: Config | str = "auto",
        *,
        method: Method = CONFIGURED,
        out: str | Path | None = None,
    ) -> None:
        """Create the viewer.

        Args:
            source: `Scene` to train on, `Run` to view or to train further, or path of a scene
                folder, a run folder, an instant-ngp snapshot, a video, or a folder of photos. For a
                video or photos, cameras are estimated first.
            config: All settings of a new run, or the name of a preset, as in `nerfmac.train`.
            method: Custom field, sampler, or loss, as in `nerfmac.train`.
            out: Folder for a new run. The run is saved there when its images are decoded, every 30
                seconds of training, and whenever training stops. By default, a new run is only in
                memory.

        Raises:
            InputError: If an argument is invalid or the source cannot be loaded.
        """
        super().__init__()
        choose_device()
        if isinstance(source, Run):
            mx.eval(source.state.arrays())  # A lazy array cannot be evaluated on another thread.
        if isinstance(source, str | Path) and not is_run(user_path(source)):
            if out is not None:
                check_unused(user_path(out))  # Reports an unsuitable folder before a capture.
            source = captured(user_path(source))
            for finding in stored_verdict(source).findings:
                log.warning("%s", finding.evidence)
        self._worker = the_worker()

        def begin() -> Session:
            shown = _opened(source, config, method, out)
            session = Session(self._worker, shown, self.send)
            if isinstance(source, str | Path) and is_run(user_path(source)):
                session.jobs.held_out = HeldOut.read(user_path(source), session.run.state.step)
            return session

        for viewer in self.unsaved():
            log.warning(UNSAVED, viewer._session.training.unsaved_steps, viewer._session.run.name)
        self._session = self._worker.submit(begin).result()
        self._loop = Loop(self._worker, self._session, partial(_keep, self))
        self._image: DisplayHandle | None = None
        _hear_while_cells_run(self.comm)
        self._worker.add(self._loop)
        self._is_open = True
        self._opened.add(self)
        self.on_msg(lambda _widget, message, _buffers: self._loop.post(message))

    @classmethod
    def unsaved(cls) -> list[Viewer]:
        """Return the open viewers with training steps that have not been saved.

        If a cell that creates a viewer is run again, its earlier viewer remains open and can be
        saved with this method.

        Returns:
            Open viewers with unsaved training steps, in arbitrary order.

        Examples:
            >>> for viewer in nerfmac.Viewer.unsaved():
            ...     viewer.save("runs/kept")
        """
        return [one for one in cls._opened if one._is_open and one._session.training.unsaved_steps]

    @property
    def run(self) -> Run:
        """Copy of the current run, for rendering, evaluating, or saving during training."""
        return self._do(self._session.run.copy)

    @property
    def view(self) -> View:
        """Current view: the camera and the point that it orbits, in scene coordinates. Each open
        page has a view of its own, and this is the view of the page that was used last. Assign a
        `View` to move the cameras of all pages."""
        return self._session.view

    @view.setter
    def view(self, view: View) -> None:
        self._do(lambda: self._session.change_views(lambda _: view))

    @property
    def path(self) -> CameraPath:
        """Camera path through the user's keyframes, in scene coordinates. Assign a `CameraPath` to
        replace the keyframes."""
        return self._session.jobs.path_editor.path

    @path.setter
    def path(self, path: CameraPath) -> None:
        self._do(lambda: setattr(self._session.jobs.path_editor, "path", path))

    def set(self, **values: Any) -> None:
        """Change settings on all pages, as with the controls of a page.

        Args:
            values: New values, keyed by name: `mode` (`color`, `depth`, `normals`, `opacity`,
                `occupancy`, or `samples`), `background` (`#rrggbb`), `fov` (vertical field of view
                in degrees), `exposure` (exposure compensation in stops), `crop` (lowest and highest
                corner of the crop box in scene coordinates, or None), `resolution` (maximum length
                of the longer side of an image in pixels, or None), `up` (up direction: `x`, `-x`,
                `y`, `-y`, `z`, `-z`, `scene`, or `view` for that of the current view), `share`
                (fraction of the device time for training), `rate` (factor for the learning rate),
                `rays` (maximum number of rays per step), and `steps` and `seconds` (limits on the
                total number of steps and on the total training time).

        Raises:
            InputError: If a name is unknown or a value is invalid.
        """
        self._do(lambda: self._session.set(values))

    def refine(self, **switches: bool) -> None:
        """Enable or disable refinements before training starts.

        Args:
            switches: True or False for `poses`, `lenses`, `exposures`, or `colors`. Refinements
                that are not listed remain unchanged.

        Raises:
            InputError: If a name is unknown or training has started.
        """
        self._do(lambda: self._session.training.refine(**switches))

    def train(self, steps: int | None = None, seconds: float | None = None) -> None:
        """Train in the background.

        Args:
            steps: Total number of training steps. By default, the number is not limited.
            seconds: Additional training time in seconds. By default, the time is not limited.

        Raises:
            InputError: If the run has already been trained for `steps` steps.
        """
        self._do(lambda: self._session.train(steps, seconds))

    def pause(self) -> None:
        """Stop training after the current step. Call `train` to resume training."""
        self._do(self._session.training.pause)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until training has stopped. An interruption (Ctrl-C) ends only the wait, not the
        training.

        Args:
            timeout: Maximum time in seconds. By default, wait without a limit.

        Returns:
            Whether training has stopped.

        Raises:
            Exception: If an exception stopped training, this exception is raised again.
        """
        training = self._session.training
        is_resting = training.is_resting.wait(timeout)
        if is_resting and training.failure is not None:
            raise training.failure
        return is_resting

    def save(self, folder: str | Path) -> None:
        """Save the current run.

        Args:
            folder: Run folder. If the folder does not exist, it is created.

        Raises:
            InputError: If the files cannot be written.
        """
        self._do(lambda: self._session.training.save(folder))

    def render_video(
        self,
        path: str | Path,
        *,
        seconds: float | None = None,
        fps: float = 24.0,
        size: tuple[int, int] | None = None,
        progress: bool = True,
    ) -> Path:
        """Render a video along the selected path: the keyframes, or a move selected on the page.

        If this path has fewer than two keyframes, the video follows an orbit. Frames are rendered
        with the current settings of the viewer. If rendering is interrupted, no file is written.

        Args:
            path: MP4 file to write.
            seconds: Duration in seconds. By default, the duration of the path.
            fps: Frames per second.
            size: Width and height in pixels, rounded down to even numbers. By default, the video
                has the shape of the photos, and its longer side has 720 pixels.
            progress: Whether to show a progress bar.

        Returns:
            Path of the video.

        Raises:
            InputError: If an argument is invalid, or another video is being rendered.
        """

        def begin() -> VideoJob:
            editor = self._session.jobs.path_editor
            length = editor.seconds if seconds is None else seconds
            shape = length, fps, size or editor.sizes[0]
            return self._session.jobs.begin_video(str(path), shape, *self._session.images())

        job = self._do(begin).start()
        bar = tqdm(total=job.total, desc="frames", unit="frame", disable=not progress)
        try:
            while not job.result.done():
                wait([job.result], 0.1)
                bar.update(job.done - bar.n)
            return job.result.result()
        finally:
            job.cancel()
            bar.close()

    def close(self) -> None:
        """Stop training, save the run if it has a folder, and remove the widget from the page."""
        if self._is_open:
            self._is_open = False
            if (export := self._session.jobs.export) is not None:
                export.cancel()
            self._worker.remove(self._loop, self._session.training.pause)
        super().close()
        # The layout is a widget, too. Without this call, ipywidgets would never release it.
        self.layout.close()

    def _ipython_display_(self) -> None:
        """Display the widget and, below it, a sentence and an image for pages without a kernel.
        Style sheets hide these while the widget is active."""
        bundle = self._repr_mimebundle_()
        display(bundle[0] if bundle else {}, raw=True)
        display({"text/html": SAVED, "text/plain": ""}, raw=True)
        if self._image is None:
            self._image = display({"text/plain": ""}, raw=True, display_id=True)
        else:
            self._image.display({"text/plain": ""}, raw=True)
        _keep(self, self.still)

    def _do(self, task: Callable[[], T]) -> T:
        """Run a task on the worker thread, and then the loop."""
        result = self._worker.submit(task).result()
        self._worker.wake(self._loop)
        return result


def _keep(viewer: Viewer, jpeg: bytes) -> None:
    """Store a JPEG image in the notebook for pages without a kernel."""
    viewer.still = jpeg
    if jpeg and viewer._image is not None:
        viewer._image.update(Image(jpeg, format="jpeg"))


def _hear_while_cells_run(comm: Any) -> None:
    """Make sure that messages from the page are handled while the main thread runs a cell.

    JupyterLab sends these messages to a subshell of the kernel, on a separate thread. ipykernel 7
    forwards them to the main shell, which has last sent a message to the page and is busy while a
    cell runs. With this change, the subshell handles the messages that it receives.
    """
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda _data, asked: asked


def _opened(
    source: Run | Scene | str | Path, config: Config | str, method: Method, out: str | Path | None
) -> Training | Preview:
    """Return the training of a copied or a loaded run, or the preview of a new run."""
    if isinstance(source, Run):
        return Training(source.copy())
    if not isinstance(source, Scene):
        folder = user_path(source)
        if is_run(folder) or is_snapshot(folder):
            run = open_run(folder, method=method)
            run.history = read_history(folder, run.state.step) or run.history
            return Training(run)
        source = load_scene(folder)
    return Preview(source, config, method, None if out is None else user_path(out))
