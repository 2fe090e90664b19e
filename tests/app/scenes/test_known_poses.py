"""Known camera poses next to photos are read, or named before poses are estimated again. Files that
contain no poses do not matter."""

import json

import numpy as np
import pytest

from nerfmac import InputError, load_scene
from nerfmac.app.capture import capture_scene, captured
from nerfmac.app.scenes import holds_scene
from nerfmac.app.scenes.readers.pose_files import pose_file
from tests.app.scenes.scene_files import matrix, pixels, save

COUNT = 5
NAMES = [f"img_{index:03d}" for index in range(COUNT)]


def photos(folder):
    for index, name in enumerate(NAMES):
        save(folder / f"{name}.png", pixels(index))
    return folder


def rows(header, form):
    """A header, and a line for each photo with its name, position, and three angles."""
    places = [np.array(matrix(index))[:3, 3] for index in range(COUNT)]
    lines = [
        form.format(f"{name}.png", *place, 10 * index, 70.5, 0.1)
        for index, (name, place) in enumerate(zip(NAMES, places, strict=True))
    ]
    return "\n".join([header, *lines])


def flat(index, size=16):
    return " ".join(f"{value:.6f}" for value in np.ravel(matrix(index))[:size])


XMP = """<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF><rdf:Description xcr:Version="3"
xmlns:xcr="http://www.capturingreality.com/ns/xcr/1.1#" xcr:FocalLength35mm="30">
<xcr:Rotation>1 0 0 0 1 0 0 0 1</xcr:Rotation><xcr:Position>1 2 3</xcr:Position>
</rdf:Description></rdf:RDF></x:xmpmeta>"""
METASHAPE = """<?xml version="1.0"?>
<document version="2.0.0"><chunk label="1"><sensors/><cameras><camera id="0" label="img_000">
<transform>1 0 0 1 0 1 0 2 0 0 1 3 0 0 0 1</transform></camera></cameras></chunk></document>"""
PIX4D = """fileName imageWidth imageHeight
camera matrix K [3x3]
radial distortion [3x1]
camera position t [3x1]
camera rotation R [3x3]
img_000.png 24 16"""
SHOTS = {"img_000.png": {"rotation": [0.1, 0.2, 0.3], "translation": [1, 2, 3], "camera": "v2"}}
POSED = {"poseId": "7", "pose": {"transform": {"rotation": ["1"], "center": ["0"]}}}
NERFIES = {"focal_length": 30, "image_size": [24, 16], "orientation": [[1]], "position": [1, 2, 3]}

TRAJECTORY = "\n".join(f"{i}.5 1 2 3 0 0.6 0 0.8" for i in range(COUNT))
POSES = {
    "RealityScan": {
        "export/cams.csv": rows("#name,x,y,alt,heading,pitch,roll,f,px", "{},{},{},{},{},{},{},3,0")
    },
    "RealityScan, angles": {
        "a.txt": rows("Name, X, Y, Z, Omega, Phi, Kappa", "{},{},{},{},{},{},{}")
    },
    "RealityScan, sidecars": {f"{name}.xmp": XMP for name in NAMES},
    "Metashape": {"project/cameras": "", "project/cameras.xml": METASHAPE},
    "Pix4D": {"1_initial/params/p_calibrated_camera_parameters.txt": PIX4D},
    "OpenMVG": {"sfm.json": json.dumps({"sfm_data_version": "0.3", "extrinsics": [{"key": 0}]})},
    "Meshroom": {"sfm.json": json.dumps({"version": ["1"], "views": [], "poses": [POSED]})},
    "OpenSfM": {"x/reconstruction.json": json.dumps([{"cameras": {}, "shots": SHOTS}])},
    "Bundler": {"bundle/b.out": "# Bundle file v0.3\n5 100\n"},
    "VisualSFM": {"model.nvm": "NVM_V3\n\n5\nimg_000.png 30 1 0 0 0 1 2 3 0 0"},
    "SDFStudio": {"meta.json": json.dumps({"frames": [{"rgb_path": "a", "camtoworld": [[1]]}]})},
    "Nerfies": {f"camera/{name}.json": json.dumps(NERFIES) for name in NAMES},
    "MVSNet": {
        f"cams/{i}_cam.txt": f"extrinsic\n{flat(i)}\n\nintrinsic\n1 0" for i in range(COUNT)
    },
    "camera matrices, files": {
        f"pose/{i}.txt": np.array2string(np.array(matrix(i))).translate({91: None, 93: None})
        for i in range(COUNT)
    },
    "camera matrices, rows": {"traj.txt": "\n".join(flat(i, 12) for i in range(COUNT))},
    "camera matrices, JSON": {
        "my/cams.json": json.dumps({n: matrix(i) for i, n in enumerate(NAMES)})
    },
    "camera matrices, columns": {
        "poses.json": json.dumps([{"m": np.array(matrix(i)).T.ravel().tolist()} for i in range(4)])
    },
    "camera matrices, rotations": {
        "cameras.json": json.dumps(
            [
                {"img_name": name, "position": [1.0, 2, i], "rotation": np.eye(3).tolist()}
                for i, name in enumerate(NAMES)
            ]
        )
    },
    "trajectory": {"t.txt": TRAJECTORY},
    "TUM RGB-D": {"groundtruth.txt": f"# truth\n# timestamp tx ty tz qx qy qz qw\n{TRAJECTORY}"},
    "trajectory of ARKitScenes": {
        "lowres.traj": "\n".join(f"{i}.5 1 2 3 4 5 6" for i in range(COUNT))
    },
}


@pytest.mark.parametrize("name", POSES)
def test_poses_that_are_not_read_are_named_before_a_capture(tmp_path, name):
    folder = photos(tmp_path / "in")
    for path, content in POSES[name].items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    for read in (load_scene, captured, lambda path: capture_scene(path, tmp_path / "out")):
        with pytest.raises(InputError) as refused:
            read(folder)
        text = str(refused.value)
        words = name.split(",")[0].split(" of ")[0]
        assert words in text.partition("contains camera poses in the format ")[2].partition(":")[
            0
        ].replace("trajectories", "trajectory")
        assert f"`nerfmac capture {folder} --estimate`" in text
    assert not holds_scene(folder)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("listed", [1, 2, 3, COUNT])
def test_a_file_next_to_photos_matters_if_it_lists_more_than_half_of_them(tmp_path, listed):
    folder = photos(tmp_path / "in")
    lines = rows("#name,x,y,alt,heading,pitch,roll,f,px", "{},{},{},{},{},{},{},3,0").split("\n")
    (tmp_path / "cams.csv").write_text("\n".join(lines[: listed + 1]))
    assert (pose_file(folder) is not None) == (listed > COUNT / 2)
