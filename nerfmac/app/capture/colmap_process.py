"""A stage of structure from motion with pycolmap in a separate process.

`python colmap_process.py STAGE FOLDER` reads `FOLDER/plan.json` and continues `FOLDER/database.db`.
In a separate process, COLMAP can be interrupted at any time, the log of COLMAP can be written to a
file, and a crash does not affect nerfmac. The process ends when its standard input is closed by the
parent process. The stages are:

    features  Extracts SIFT features (Lowe 2004) of each image.
    matches   Matches the features of the image pairs in the plan.
    mapping   Runs incremental mapping (Schönberger and Frahm 2016) or global mapping (Pan et al.
              2024). The model is written to the subfolder of `FOLDER` that the key `model` of the
              plan specifies.

The process prints progress as numbers. Each number counts images or pairs that have been completed
since the previous number.

COLMAP sees numbered names only, because the names of users do not fit its text formats: the pairs
to match are lines of two names with a blank between them. The folder `FOLDER/numbered` contains
links to the images and masks. Only `Names` and `two_views.read_matches` know both names.
"""

import json
import os
import shutil
import sys
from collections.abc import Container, Iterable
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Any

SEED = 0
MAX_FEATURES = 8192
MAX_SIDE = 1600
"""Maximum length of the longer side in pixels. More pixels hardly improve the camera poses."""
LENS_MODEL = "RADIAL"
"""COLMAP camera model with one focal length, k1, and k2. A mostly flat scene does not determine the
second focal length of the OPENCV model."""
MIN_PARALLAX, MIN_ANGLE = 2.0, 0.3
"""Minimum angles in degrees between the viewing rays of a sparse point, at the initial pair of
images and at any pair, if no images have the parallax that COLMAP requires by default."""
MIN_RATIO, MAX_RATIO, MAX_K1 = 1.1, 2.0, 0.5
"""Minimum and maximum ratio of two focal lengths of images that have been squeezed, and maximum
distortion coefficient k1 of photos."""
MAX_FREED_ERROR, MAX_FREED = 0.96, 30
"""Maximum reprojection error with two focal lengths, relative to the error with a common one, and
approximate maximum number of images for which both are compared. In rendered captures that are not
squeezed, the error is at least 0.99, and in squeezed ones, it is at most 0.95."""
PAIRS_AT_A_TIME = 60  # Number of pairs after which matches are stored and progress is reported.


def main(stage: str, folder: Path) -> None:
    """Run a stage of the capture in `folder`."""
    import pycolmap

    pycolmap.set_random_seed(SEED)
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    names = Names(plan, folder / "numbered")
    stages = {
        "features": find_features,
        "matches": match,
        "mapping": map_cameras,
    }
    return stages[stage](pycolmap, folder, plan, names)


class Names:
    """Numbered names of the images in the plan."""

    def __init__(self, plan: Any, folder: Path) -> None:
        """Create links in `folder` to the images and to their masks, if there are any."""
        self.images = folder / "images"
        self.masks = folder / "masks" if plan["masks"] else None
        self._numbered = {
            name: f"{number:06}{Path(name).suffix.lower()}"
            for number, name in enumerate(plan["names"])
        }
        self._given = {numbered: name for name, numbered in self._numbered.items()}
        for name, numbered in self._numbered.items():
            _link(Path(plan["images"], name), self.images / numbered)
            if self.masks:
                _link(Path(plan["masks"], f"{name}.png"), self.masks / f"{numbered}.png")

    def numbered(self, names: Iterable[str]) -> list[str]:
        """Return the names that COLMAP sees."""
        return [self._numbered[name] for name in names]

    def given(self, numbered: str) -> str:
        """Return the name of an image that COLMAP has numbered."""
        return self._given[numbered]


def _link(source: Path, link: Path) -> None:
    """Create a link to a file, or a copy where the file system has no links."""
    link.parent.mkdir(parents=True, exist_ok=True)
    if not os.path.lexists(link):
        try:
            link.symlink_to(source)
        except OSError:
            shutil.copyfile(source, link)


def find_features(pycolmap: Any, folder: Path, plan: Any, names: Names) -> None:
    """Extract SIFT features of all images that have no features yet. Images with the same lens
    share a camera. If the plan contains a folder of masks, no features are extracted where the mask
    of an image is black. COLMAP expects the mask of NAME.jpg in the file NAME.jpg.png."""
    database = folder / "database.db"
    options = pycolmap.FeatureExtractionOptions()
    options.max_image_size = MAX_SIDE
    options.sift.max_num_features = MAX_FEATURES
    for lens in plan["lenses"]:
        with pycolmap.Database.open(database) as opened:
            known = {image.name: image for image in opened.read_all_images()}
            done = {name for name, im in known.items() if opened.exists_keypoints(im.image_id)}
        wanted = names.numbered(lens["images"])
        print(len(done.intersection(wanted)), flush=True)
        remaining = iter(name for name in wanted if name not in done)
        reader = pycolmap.ImageReaderOptions()
        reader.camera_model = LENS_MODEL
        reader.default_focal_length_factor = plan["focal_guess"]
        if names.masks:
            reader.mask_path = names.masks
        if lens["parameters"]:  # COLMAP treats these parameters as known.
            reader.camera_params = ",".join(map(str, lens["parameters"]))
        camera = _camera_of(known.values(), wanted)
        while some := list(islice(remaining, 2 * (os.cpu_count() or 1))):
            reader.existing_camera_id = camera
            pycolmap.extract_features(
                database,
                names.images,
                image_names=some,
                camera_mode=pycolmap.CameraMode.SINGLE,
                reader_options=reader,
                extraction_options=options,
            )
            if camera < 0:
                with pycolmap.Database.open(database) as opened:
                    camera = _camera_of(opened.read_all_images(), some)
            print(len(some), flush=True)


def _camera_of(images: Iterable[Any], names: Container[str]) -> int:
    """Return the ID of the camera of the named images, or -1 if COLMAP could read none of them."""
    return next((image.camera_id for image in images if image.name in names), -1)


def match(pycolmap: Any, folder: Path, plan: Any, names: Names) -> None:
    """Match the image pairs in the plan that are not in the database yet."""
    options = pycolmap.ImportedPairingOptions()
    options.match_list_path = folder / "pairs.txt"
    remaining = iter(plan["pairs"])
    while pairs := list(islice(remaining, PAIRS_AT_A_TIME)):
        lines = "".join(f"{' '.join(names.numbered(pair))}\n" for pair in pairs)
        options.match_list_path.write_text(lines, encoding="utf-8")
        pycolmap.match_image_pairs(folder / "database.db", pairing_options=options)
        print(len(pairs), flush=True)


def map_cameras(pycolmap: Any, folder: Path, plan: Any, names: Names) -> None:
    """Estimate the cameras, and write the model with the most images.

    The key `only` of the plan lists the images to map, by default all images. The key `kept` lists
    the pairs whose matches are used, by default all pairs. The key `mapper` is "incremental" or
    "global". The key `lens` contains [focal length relative to the longer side, k1, k2, ratio of
    the vertical to the horizontal focal length] for all cameras without parameters. Incremental
    mapping fixes these values and optimizes them at the end. If `lens` is null, cameras are
    optimized during the whole mapping. If the key `held` is true, focal lengths are never
    optimized, unless the images have been squeezed.

    The file `summary.json` next to the model contains the number of images in each model (`models`)
    and, for the written model, the mean reprojection error in pixels (`error`), the number of
    `observations`, the sparse `points` as in `Structure`, and the optimized `lens` if the plan
    contains a lens.
    """
    work, sparse = folder / "partial", folder / plan["model"]
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    database = folder / "database.db"
    if plan["kept"] is not None:
        kept = {frozenset(names.numbered(pair)) for pair in plan["kept"]}
        database = _with_pairs(pycolmap, folder, kept)
    guessed = _hold_lens(pycolmap, database, plan, names) if plan["lens"] else set()
    is_global = plan["mapper"] == "global"
    kind = pycolmap.GlobalPipelineOptions if is_global else pycolmap.IncrementalPipelineOptions
    options = kind(random_seed=SEED, min_model_size=plan["fewest"])
    options.image_names = names.numbered(plan["only"])
    given = database, names.images, work, options
    if is_global:
        models = pycolmap.global_mapping(*given)
    else:
        models = _map_incrementally(pycolmap, plan, *given)
    shutil.rmtree(work)
    work.mkdir()
    summary: dict[str, Any] = {"models": [model.num_reg_images() for model in models.values()]}
    if models:
        best = max(models.values(), key=lambda model: model.num_reg_images())
        if plan["lens"]:
            adjusting = pycolmap.BundleAdjustmentOptions(print_summary=False)
            adjusting.refine_focal_length = not plan["held"]
            pycolmap.bundle_adjustment(best, adjusting)
        # Bundle adjustment may move points behind a camera, where their error has no bound.
        pycolmap.ObservationManager(best).filter_observations_with_negative_depth()
        if _is_squeezed(pycolmap, best):
            _free_ratio(pycolmap, best)
        best.update_point_3d_errors()
        if plan["lens"]:
            summary["lens"] = _most_common_lens(best, guessed)
        for image in best.images.values():
            image.name = names.given(image.name)
        best.write_binary(work)
        summary["error"] = best.compute_mean_reprojection_error()
        summary["observations"] = best.compute_num_observations()
        summary["points"] = [
            [*point.xyz.tolist(), *point.color.tolist(), point.error, point.track.length()]
            for point in best.points3D.values()
        ]
    (work / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    shutil.rmtree(sparse, ignore_errors=True)
    work.rename(sparse)


def _map_incrementally(pycolmap: Any, plan: Any, *given: Any) -> Any:
    options = given[-1]
    if plan["lens"] or plan["held"]:
        options.ba_refine_focal_length = options.mapper.abs_pose_refine_focal_length = False
    if plan["lens"]:
        options.ba_refine_extra_params = options.mapper.abs_pose_refine_extra_params = False
    models: Any = {}
    for is_relaxed in (False, True):
        if is_relaxed:
            # Short walks and corridors have no pair of images with the usual parallax.
            options.mapper.init_max_forward_motion = 1.0
            options.mapper.init_min_tri_angle = MIN_PARALLAX
            options.mapper.filter_min_tri_angle = MIN_ANGLE
            options.triangulation.min_angle = MIN_ANGLE
        progress = _Progress()
        models = pycolmap.incremental_mapping(
            *given,
            initial_image_pair_callback=progress.begin,
            next_image_callback=progress.add,
        )
        if models:
            break
    return models


def _with_pairs(pycolmap: Any, folder: Path, kept: set[frozenset[str]]) -> Path:
    """Write a copy of the database with the matches of the `kept` pairs of names only."""
    database = folder / "kept.db"
    database.unlink(missing_ok=True)
    shutil.copyfile(folder / "database.db", database)
    with pycolmap.Database.open(database) as opened:
        names = {image.image_id: image.name for image in opened.read_all_images()}
        found = zip(*opened.read_two_view_geometries(), strict=True)
        opened.clear_two_view_geometries()
        for pair, geometry in found:
            one, other = pycolmap.pair_id_to_image_pair(pair)
            if {names[one], names[other]} in kept:
                opened.write_two_view_geometry(one, other, geometry)
    return database


def _hold_lens(pycolmap: Any, database: Path, plan: Any, names: Names) -> set[int]:
    """Write the intrinsics in `lens` of the plan for all cameras without parameters, and return the
    IDs of these cameras.

    Their focal lengths are marked as known. If they were unknown, COLMAP could estimate other focal
    lengths from fundamental matrices and fix them.
    """
    focal, *distortion, ratio = plan["lens"]
    guessed = set()
    with pycolmap.Database.open(database) as opened:
        for lens in plan["lenses"]:
            number = _camera_of(opened.read_all_images(), names.numbered(lens["images"]))
            if number >= 0 and not lens["parameters"]:
                camera = opened.read_camera(number)
                middle = camera.width / 2, camera.height / 2
                size = focal * max(camera.width, camera.height)
                camera.params = [size, *middle, *distortion]
                if ratio != 1.0:
                    camera.model = pycolmap.CameraModelId.OPENCV
                    camera.params = [size, ratio * size, *middle, *distortion, 0.0, 0.0]
                camera.has_prior_focal_length = True
                opened.update_camera(camera)
                guessed.add(number)
    return guessed


def _is_squeezed(pycolmap: Any, model: Any) -> bool:
    """Return whether the images have been resized to another aspect ratio: two focal lengths fit a
    part of the images better than a common one, and they are clearly different."""
    part = pycolmap.Reconstruction(model)
    frames = sorted(part.reg_frame_ids())
    for frame in set(frames) - set(frames[:: -(-len(frames) // MAX_FREED)]):
        part.deregister_frame(frame)
    error = part.compute_mean_reprojection_error()
    ratios = _free_ratio(pycolmap, part)
    ratio = max(ratios[len(ratios) // 2], 1 / ratios[len(ratios) // 2])
    # Wrong cameras also fit better with two focal lengths, but then with extreme distortion.
    is_plausible = all(abs(camera.params[4]) < MAX_K1 for camera in part.cameras.values())
    is_better = part.compute_mean_reprojection_error() < MAX_FREED_ERROR * error
    return is_plausible and is_better and MIN_RATIO < ratio < MAX_RATIO


def _free_ratio(pycolmap: Any, model: Any) -> list[float]:
    """Optimize two focal lengths of each camera, and return their sorted ratios."""
    for camera in model.cameras.values():
        if camera.model_name == LENS_MODEL:
            focal, *rest = camera.params.tolist()
            camera.model = pycolmap.CameraModelId.OPENCV
            camera.params = [focal, focal, *rest, 0.0, 0.0]
    pycolmap.bundle_adjustment(model, pycolmap.BundleAdjustmentOptions(print_summary=False))
    model.update_point_3d_errors()
    return sorted(camera.params[1] / camera.params[0] for camera in model.cameras.values())


def _most_common_lens(model: Any, guessed: set[int]) -> list[float]:
    """Return [relative focal length, k1, k2, ratio of the focal lengths] of the camera in `guessed`
    with the most images."""
    numbers = [image.camera_id for image in model.images.values() if image.camera_id in guessed]
    camera = model.cameras[max(sorted(set(numbers)), key=numbers.count)]
    focal, *_, k1, k2 = camera.params.tolist()[: -2 if camera.model_name == "OPENCV" else None]
    ratio = camera.params[1] / focal if camera.model_name == "OPENCV" else 1.0
    return [focal / max(camera.width, camera.height), k1, k2, ratio]


class _Progress:
    """Progress of mapping. Only the growth of the largest of several models is printed."""

    def __init__(self) -> None:
        self._now, self._most = 0, 0

    def begin(self) -> None:
        """Start counting a new model. A new model has two images."""
        self._now = 1
        self.add()

    def add(self) -> None:
        """Count one more image of the model."""
        self._now += 1
        if self._now > self._most:
            print(self._now - self._most, flush=True)
            self._most = self._now


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    Thread(target=_end_with_parent, daemon=True).start()
    main(sys.argv[1], Path(sys.argv[2]))
