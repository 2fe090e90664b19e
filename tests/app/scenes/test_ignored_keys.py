"""Keys that nerfmac does not read are refused or reported if they mean something elsewhere."""

import numpy as np
import pytest

from nerfmac.app.inspection import inspect_scene, training_findings
from nerfmac.app.scenes import load_scene
from nerfmac.app.scenes.ply_points import write_ply_points
from tests.app.scenes.scene_files import matrix, write_transforms


def opencv(index):
    return (np.array(matrix(index)) @ np.diag([1, -1, -1, 1])).tolist()


@pytest.mark.parametrize("with_points", [True, False])
def test_opencv_axes_are_suspected(tmp_path, with_points):
    more = {}
    if with_points:
        points = np.random.default_rng(1).normal(0, 0.3, (60, 3))
        write_ply_points(tmp_path / "p.ply", points, np.full((60, 3), 90, np.uint8))
        more = {"ply_file_path": "p.ply"}
    frame = {index: {"transform_matrix": opencv(index)} for index in range(9)}
    for frames, is_told in ((frame, True), ({}, False)):
        scene = load_scene(write_transforms(tmp_path, 9, frame=frames, **more))
        for lines in (inspect_scene(scene, progress=False).findings, training_findings(scene)):
            found = [line for line in lines if "OpenCV axes (y down, z forward), negate" in line]
            assert len(found) == is_told
            start = "the sparse points are behind" if with_points else "all cameras look outward"
            assert all(line.startswith(start) for line in found)
