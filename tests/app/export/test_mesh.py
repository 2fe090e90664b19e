"""Meshes of a field with a known surface."""

import os
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from nerfmac import Camera, InputError
from nerfmac.app.export import extract_mesh
from nerfmac.geometry.placement import Placement
from tests.app.export.egg import HOLLOW, MIDDLE, color_of, distance_to, size_of, slope_of

# Imported inside functions, because it imports SciPy and each test process imports this file.
pytestmark = pytest.mark.skipif(find_spec("trimesh") is None, reason="needs the extra export")

RESOLUTION = 60
CROP = ((-0.83, -0.64, -0.6), (0.62, 0.46, 0.63))  # around the egg and the crumb


@pytest.fixture(scope="module")
def mesh(run):
    return extract_mesh(run, resolution=RESOLUTION, crop=CROP, progress=False)


@pytest.fixture(scope="module")
def placement(run) -> Placement:
    return run.scene.placement


def cell(placement):
    low, high = np.array(CROP)
    return placement.scale * (high - low).max() / RESOLUTION


def solid(mesh):
    import trimesh

    return trimesh.Trimesh(mesh.vertices, mesh.faces, process=False)


def test_the_mesh_is_the_surface(mesh, placement):
    assert placement.scale != 1.0
    away = np.abs(distance_to(placement.to_scene(mesh.vertices)))
    assert away.mean() < 0.1 * cell(placement)
    assert away.max() < cell(placement)


def test_the_mesh_is_one_closed_piece_that_faces_outwards(mesh, placement):
    assert solid(mesh).is_watertight
    assert solid(mesh).is_winding_consistent
    assert solid(mesh).body_count == 1
    points = np.random.default_rng(2).uniform(0.2, 0.8, (200_000, 3))
    volume = 0.6**3 * (size_of(points) < 1).mean() / placement.scale**3
    assert solid(mesh).volume == pytest.approx(volume, rel=0.02)


def test_what_no_camera_sees_into_and_crumbs_are_left_out_unless_asked_for(run, placement, caplog):
    arguments = {"resolution": RESOLUTION, "crop": CROP, "progress": False}
    extract_mesh(run, **arguments, threshold=100)
    assert not caplog.messages
    caplog.set_level("INFO", "nerfmac")
    extract_mesh(run, **arguments)
    assert "at density 100," in caplog.text
    everything = extract_mesh(run, **arguments, threshold=100, smallest=0.0)
    assert "2 pieces" in caplog.text
    assert solid(everything).body_count == 2  # the egg and its crumb, no hollow
    size = size_of(placement.to_scene(everything.vertices))
    assert (np.abs(size - 1.0) < 0.1).sum() > 1000
    assert (size > 1.1).any()
    assert not (size < 0.9).any()


def test_a_hollow_with_a_camera_in_it_is_kept(run, placement, monkeypatch):
    *others, last = run.scene.splits["train"]
    inside = Camera(last.camera.lens, np.column_stack([last.camera.pose[:, :3], MIDDLE]))
    frames = *others, replace(last, camera=inside)
    monkeypatch.setattr(run, "scene", replace(run.scene, splits={"train": frames}))
    both = extract_mesh(run, resolution=RESOLUTION, crop=CROP, progress=False)
    assert solid(both).body_count == 2
    size = size_of(placement.to_scene(both.vertices))
    assert (np.abs(size - HOLLOW) < 0.05).sum() > 50


def test_normals_and_colors_are_those_of_the_surface(mesh, placement):
    position = placement.to_scene(mesh.vertices)
    slope = slope_of(position)
    facing = slope / np.linalg.norm(slope, axis=1, keepdims=True)
    assert (mesh.normals * facing).sum(axis=1).min() > 0.99
    assert mesh.colors == pytest.approx(255 * color_of(position), abs=1)


def test_a_crop_that_cuts_the_egg_closes_it_there(run, placement):
    crop = (CROP[0], (0.1, 0.46, 0.63))
    mesh = extract_mesh(run, resolution=RESOLUTION, crop=crop, progress=False)
    assert solid(mesh).is_watertight
    spacing = 1.23 / RESOLUTION
    assert 0.1 <= mesh.vertices[:, 0].max() <= 0.1 + 2 * spacing


def test_a_resolution_that_does_not_fit_in_memory_is_refused_before_it_is_tried(run, monkeypatch):
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**30 // 4096}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    with pytest.raises(
        InputError, match=r"about 6\.5 GB of the machine's 1\.1 GB; a resol"
    ) as told:
        extract_mesh(run, resolution=1024, crop=((-1, -1, -1), (1, 1, 1)))
    fitting = int(str(told.value).split("resolution of ")[1].split()[0])
    assert 500 < fitting < 530
