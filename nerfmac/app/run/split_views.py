"""Views of a split with the refined cameras of a `Run`, and evaluation of these views."""

from __future__ import annotations

import time

from tqdm.auto import tqdm

from nerfmac.app.run.interface import RunInterface
from nerfmac.geometry.views import Views
from nerfmac.rendering.evaluation import Evaluation, evaluate
from nerfmac.rendering.perceptual import Lpips
from nerfmac.training.held_out import refined_views


def aligned_views(run: RunInterface, split: str, *, progress: bool) -> Views:
    """Return the images and cameras of a split. The function implements `Run.views`.

    Args:
        run: Run with the scene. The views with refined cameras are cached in `run.aligned` for the
            last split and step.
        split: Name of the split.
        progress: Whether to show progress bars.

    Returns:
        Views with cameras in scene coordinates.

    Raises:
        InputError: If the scene does not have the split, or its images cannot be read.
    """
    views, key = run.images().views(split, progress=progress), (split, run.state.step)
    if run.config.refine.cameras and key not in run.aligned:
        is_trained, trained = split == "train", (run.trainer, run.state)
        refined = refined_views(*trained, views, is_trained=is_trained, progress=progress)
        run.aligned = {key: refined}
    return run.aligned.get(key, views)


def evaluate_split(
    run: RunInterface,
    split: str,
    background: str,
    *,
    seconds: float | None,
    progress: bool,
    lpips: Lpips | None,
) -> Evaluation:
    """Measure PSNR, SSIM, and optionally LPIPS of the views of a split. The function implements
    `Run.evaluate`.

    Args:
        run: Run to evaluate.
        split: Name of the split.
        background: `white` or `black`, the color behind renderings and transparent photos.
        seconds: Maximum time in seconds, including the time for reading images, or None to evaluate
            all views.
        progress: Whether to show a progress bar.
        lpips: LPIPS metric with its network weights, or None to omit LPIPS.

    Returns:
        Quality of each evaluated view, in the order of the split.

    Raises:
        InputError: If the scene does not have the split, or its images cannot be read.
    """
    start, blend = time.perf_counter(), run.config.train.blend
    views = run.views(split, progress=progress)
    seconds = seconds and seconds - (time.perf_counter() - start)
    outcomes = evaluate(run.renderer, views, background, blend, seconds=seconds, lpips=lpips)
    bar = tqdm(outcomes, f"{split} views", len(views.names), disable=not progress, unit="view")
    ordered = sorted(bar, key=lambda view: views.names.index(view.name))
    return Evaluation(ordered, split=split, of=len(views.names))
