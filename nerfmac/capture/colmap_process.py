"""One stage of structure from motion by pycolmap, in a process of its own.

`python colmap_process.py STAGE FOLDER` reads `FOLDER/plan.json` and goes on with
what `FOLDER/database.db` already has. In a process of its own COLMAP can be interrupted at any
time, its log goes to a file, and a crash is told from a result. The stages:

    features  SIFT (Lowe 2004) of each picture
    matches   of the plan's pairs, verified by their epipolar geometry; their numbers go to
              `FOLDER/matches.json`
    mapping   incremental (Schönberger and Frahm 2016), to the plan's `model` in `FOLDER`

On standard output a line with a number says that so many more pictures or pairs are done.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from itertools import islice
from pathlib import Path
from typing import Any

SEED = 0
MOST_FEATURES = 8192
LONGEST_SIDE = 1600
"""Pixels of the longer side in which features are looked for: more find hardly better cameras."""
LENS_MODEL = "RADIAL"
"""One focal length, k1 and k2. With OPENCV's second focal length a scene that is mostly flat has
lenses of any shape that fit it nearly as well, and the pixels of cameras are square."""
PAIRS_AT_A_TIME = 60
"""After so many the matches are stored, and progress is seen."""


def main(stage: str, folder: Path) -> None:
    """Run `stage` for the capture whose work is in `folder`."""
    import pycolmap

    pycolmap.set_random_seed(SEED)
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    run = {"features": find_features, "matches": match, "mapping": map_cameras}[stage]
    run(pycolmap, folder, plan)


def find_features(pycolmap: Any, folder: Path, plan: Any) -> None:
    """SIFT of all pictures that have none yet; those of one lens get one camera."""
    database = folder / "database.db"
    options = pycolmap.FeatureExtractionOptions()
    options.max_image_size = LONGEST_SIDE
    options.sift.max_num_features = MOST_FEATURES
    for lens in plan["lenses"]:
        with pycolmap.Database.open(database) as opened:
            known = {each.name: each for each in opened.read_all_images()}
            done = {name for name, each in known.items() if opened.exists_keypoints(each.image_id)}
        print(len(done.intersection(lens["pictures"])), flush=True)
        left = iter(name for name in lens["pictures"] if name not in done)
        reader = pycolmap.ImageReaderOptions()
        reader.camera_model = LENS_MODEL
        reader.default_focal_length_factor = plan["focal_guess"]
        if lens["parameters"]:  # else a guess, which is not taken for knowledge
            reader.camera_params = ",".join(map(str, lens["parameters"]))
        camera = next((known[name].camera_id for name in lens["pictures"] if name in known), -1)
        while some := list(islice(left, 2 * (os.cpu_count() or 1))):
            reader.existing_camera_id = camera
            pycolmap.extract_features(
                database,
                plan["images"],
                image_names=some,
                camera_mode=pycolmap.CameraMode.SINGLE,
                reader_options=reader,
                extraction_options=options,
            )
            if camera < 0:
                with pycolmap.Database.open(database) as opened:
                    camera = opened.read_image_with_name(some[0]).camera_id
            print(len(some), flush=True)


def match(pycolmap: Any, folder: Path, plan: Any) -> None:
    """Match the pairs of pictures that the plan lists, but for those that are matched already."""
    options = pycolmap.ImportedPairingOptions()
    options.match_list_path = folder / "pairs.txt"
    left = iter(plan["pairs"])
    while some := list(islice(left, PAIRS_AT_A_TIME)):
        lines = "".join(f"{one} {other}\n" for one, other in some)
        options.match_list_path.write_text(lines, encoding="utf-8")
        pycolmap.match_image_pairs(folder / "database.db", pairing_options=options)
        print(len(some), flush=True)
    with pycolmap.Database.open(folder / "database.db") as opened:
        names = {each.image_id: each.name for each in opened.read_all_images()}
        pairs, counts = opened.read_two_view_geometry_num_inliers()
    found = []
    for pair, count in zip(pairs, counts, strict=True):
        one, other = sorted(names[number] for number in pycolmap.pair_id_to_image_pair(pair))
        found.append([one, other, count])
    (folder / "matches.json").write_text(json.dumps(sorted(found)), encoding="utf-8")


def map_cameras(pycolmap: Any, folder: Path, plan: Any) -> None:
    """Find the cameras, and keep the model that has most of them, with its points.

    The plan's `only` are the pictures to map, all if empty. Its `lens` is what lenses without
    parameters of their own have in common, [focal length in longer sides, k1, k2]; it is held
    while mapping and released in a last adjustment. Without `lens` lenses are adjusted throughout.

    `summary.json` beside the model has the pictures of every model, the mean reprojection error in
    pixels, how many observations it is the mean of, how many points each camera of the one that is
    kept sees, and the `lens` that was found.
    """
    options = pycolmap.IncrementalPipelineOptions()
    options.random_seed = SEED
    options.min_model_size = plan["fewest"]
    options.image_names = plan["only"]
    if plan["lens"]:
        guessed = _hold_lens(pycolmap, folder, plan, options)
    work, sparse = folder / "partial", folder / plan["model"]
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    told = _Told()
    models = pycolmap.incremental_mapping(
        folder / "database.db",
        plan["images"],
        work,
        options,
        initial_image_pair_callback=told.begin,
        next_image_callback=told.add,
    )
    shutil.rmtree(work)
    work.mkdir()
    summary: dict[str, Any] = {"models": [model.num_reg_images() for model in models.values()]}
    if models:
        best = max(models.values(), key=lambda model: model.num_reg_images())
        if plan["lens"]:
            pycolmap.bundle_adjustment(best, pycolmap.BundleAdjustmentOptions(print_summary=False))
            best.update_point_3d_errors()
            summary["lens"] = _most_common_lens(best, guessed)
        best.write_binary(work)
        summary["error"] = best.compute_mean_reprojection_error()
        summary["observations"] = best.compute_num_observations()
        seen = {image.name: image.num_points3D for image in best.images.values()}
        summary["seen"] = {image: seen[image] for image in sorted(seen)}
        summary["points"] = [
            [*point.xyz.tolist(), *point.color.tolist(), point.error, point.track.length()]
            for point in best.points3D.values()
        ]
    (work / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    shutil.rmtree(sparse, ignore_errors=True)
    work.rename(sparse)


def _hold_lens(pycolmap: Any, folder: Path, plan: Any, options: Any) -> set[int]:
    """Give lenses without parameters the plan's, and hold all lenses while mapping.

    Returns the numbers of the cameras that have the plan's lens. They are marked as known: else
    COLMAP may estimate the focal length from fundamental matrices, and hold that one.
    """
    focal, *distortion = plan["lens"]
    guessed = set()
    with pycolmap.Database.open(folder / "database.db") as opened:
        for lens in plan["lenses"]:
            if not lens["parameters"]:
                number = opened.read_image_with_name(lens["pictures"][0]).camera_id
                camera = opened.read_camera(number)
                middle = camera.width / 2, camera.height / 2
                camera.params = [focal * max(camera.width, camera.height), *middle, *distortion]
                camera.has_prior_focal_length = True
                opened.update_camera(camera)
                guessed.add(number)
    options.ba_refine_focal_length = options.ba_refine_extra_params = False
    options.mapper.abs_pose_refine_focal_length = False
    options.mapper.abs_pose_refine_extra_params = False
    return guessed


def _most_common_lens(model: Any, guessed: set[int]) -> list[float]:
    """Focal length in longer sides, k1 and k2 of the `guessed` camera with the most pictures."""
    numbers = [image.camera_id for image in model.images.values() if image.camera_id in guessed]
    camera = model.cameras[max(sorted(set(numbers)), key=numbers.count)]
    focal, _, _, *distortion = camera.params.tolist()
    return [focal / max(camera.width, camera.height), *distortion]


class _Told:
    """Tells how many pictures the largest model has so far: COLMAP may begin several."""

    def __init__(self) -> None:
        self._now, self._most = 0, 0

    def begin(self) -> None:
        """A model begins, with two pictures."""
        self._now = 1
        self.add()

    def add(self) -> None:
        """The model has one picture more."""
        self._now += 1
        if self._now > self._most:
            print(self._now - self._most, flush=True)
            self._most = self._now


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
