"""`nerfmac eval` and `nerfmac export`: results of a saved run."""

from typing import Any

from nerfmac.app.cli.camera_paths import NamedPath
from nerfmac.app.cli.options import Eval, Export
from nerfmac.app.export import KINDS, PagePath, check_kind, evaluate_to_page, kind_for, worst
from nerfmac.app.export.shape_files import need_libraries
from nerfmac.app.run import CONFIGURED, Run, read_scene, surface_quality
from nerfmac.app.run.outputs import mean_quality, protocol, quality, surface_summary
from nerfmac.app.scenes import read_again
from nerfmac.app.snapshots import is_snapshot, load_snapshot, open_run
from nerfmac.backend import choose_device
from nerfmac.backend.machine import machine
from nerfmac.common import InputError, appearing, appearing_if, write_json
from nerfmac.common.files import check_replaceable
from nerfmac.rendering.evaluation import ViewQuality
from nerfmac.training.method import Method


def evaluate(arguments: Eval, method: Method = CONFIGURED) -> int:
    """Run `nerfmac eval` and return the exit code."""
    choose_device(arguments.device)
    run = _run_of(arguments, method)
    with appearing_if(arguments.json) as json:  # Reports an unwritable file before rendering.
        figures = _evaluated(run, arguments)
        if json:
            write_json(json, figures)
    return 0


def _run_of(arguments: Eval, method: Method) -> Run:
    if is_snapshot(arguments.run):
        if arguments.scene is None:
            raise InputError(
                "a snapshot does not contain images; pass the scene folder with --scene"
            )
        return load_snapshot(arguments.run, arguments.scene)
    scene = None
    if arguments.scene is not None:
        scene = read_again(read_scene(arguments.run), arguments.scene)
    return Run.load(arguments.run, scene, method=method)


def _evaluated(run: Run, arguments: Eval) -> dict[str, Any]:
    """Evaluate the run, print the metrics, and return them as JSON values."""
    split, background = arguments.split, arguments.background
    if arguments.html:
        views = evaluate_to_page(run, arguments.html, split, background)
    else:
        views = run.evaluate(split, background)
    for view in views:
        print(_line(view))
    worst_views = worst(views)
    if worst_views:
        print("worst: " + ", ".join(f"{view.name} ({view.psnr:.2f} dB)" for view in worst_views))
    mean = mean_quality(views)
    print(_line(mean))
    if run.config.refine.changes_colors:
        corrected = f"PSNR {mean.psnr_corrected:.2f} dB"
        print(f"{corrected} after fitting the colors of each rendering to its photo")
    names = dict.fromkeys((split, "train"))
    surfaces = surface_quality(run, *names)
    for name in names:
        for line in surface_summary(surfaces, name):
            print(line)
    return {
        **machine(),
        **quality(views, background=background),
        **surfaces,
        "worst": [view.name for view in worst_views],
        "protocol": protocol(run, split, background),
        "views": {
            view.name: {metric: getattr(view, metric) for metric in ViewQuality._fields[1:]}
            for view in views
        },
    }


def _line(view: ViewQuality) -> str:
    end = ""
    if view.depth_median is not None and view.depth_p90 is not None:
        end = f"  depth error {view.depth_median:.2%} (90th percentile {view.depth_p90:.2%})"
    return f"{view.name:30} {view.psnr:6.2f} dB  SSIM {view.ssim:.4f}{end}"


PATH_FPS = 12.0  # Camera poses per second. The page interpolates between them.


KIND_OPTIONS = {
    "mesh": ("crop", "resolution", "smallest", "threshold"),
    "points": ("count", "crop"),
    "cameras": (),
    "density": ("crop", "resolution"),
    "page": ("background", "path", "title"),
}
"""Options of each kind of export."""


def export(arguments: Export, method: Method = CONFIGURED) -> int:
    """Run `nerfmac export` and return the exit code."""
    kind = arguments.as_ or kind_for(arguments.file)
    check_kind(kind, arguments.file)
    options = _options(arguments, kind)
    check_replaceable(arguments.file, overwrite=arguments.overwrite)
    if kind == "mesh":
        need_libraries()
    choose_device(arguments.device)
    run = open_run(arguments.run, method=method)
    if "path" in options:
        options["camera_path"] = _page_path(options.pop("path"), run)
    with appearing(arguments.file) as partial:
        summary = KINDS[kind].write(run, partial, **options)
    print(f"{arguments.file}: {summary}")
    return 0


def _options(arguments: Export, kind: str) -> dict[str, Any]:
    """Return the export options that are given on the command line. `kind` must support them."""
    names = sorted({name for supported in KIND_OPTIONS.values() for name in supported})
    values = {name: getattr(arguments, name) for name in names}
    options = {name: value for name, value in values.items() if value is not None}
    for name in options:
        if name not in KIND_OPTIONS[kind]:
            known = ", ".join(f"--{option}" for option in KIND_OPTIONS[kind]) or "none"
            raise InputError(f"--{name} cannot be used to export {kind}; options for it: {known}")
    if "path" in options:
        options["path"] = NamedPath.read(options["path"])
    return options


def _page_path(path: NamedPath, run: Run) -> PagePath:
    named = path.within(run)
    lens = named.lens(run)
    frames = max(round(named.seconds * PATH_FPS), 1)
    cameras = named.cameras(run, frames, (lens.width, lens.height))
    return PagePath(cameras, PATH_FPS, closed=named.is_closed)
