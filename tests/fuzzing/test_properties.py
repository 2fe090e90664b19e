"""Laws of the readers for made-up values, and mutated files that are read or refused."""

import random
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from nerfmac import CameraPath, Config, Keyframe, Scene
from nerfmac.app.paths.camera_path import read_path
from nerfmac.app.paths.curve import matrices
from nerfmac.app.scenes.image_search import ImageSearch
from nerfmac.app.scenes.parsed_scene import rotation_of
from nerfmac.app.scenes.readers.json_frames import file_of
from nerfmac.common import LARGEST, Fields, InputError, leads_out, read_as
from tests.fuzzing.mutations import mutation_of
from tests.fuzzing.readers import READERS, attempt

pytestmark = pytest.mark.usefixtures("on_the_cpu")

a_few = settings(
    max_examples=100,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
NUMBERS = st.floats(allow_nan=True, allow_infinity=True) | st.integers()
LEAVES = st.none() | st.booleans() | NUMBERS | st.text(max_size=8)
KEYS = (*Config().to_json(), "extent", "up", "cameras", "keyframes", "path")
NAMES = st.sampled_from(KEYS) | st.text()
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=20,
)
PARTS = st.sampled_from(["..", ".", "", "a", "images", "a.png", "/", "\\..\\", "~", "a\0b", "ü"])
PATHS = st.lists(PARTS, max_size=6).map("/".join) | st.text(max_size=20)


def outcome(read):
    """Return the result of `read`, and the message of its InputError."""
    try:
        return read(), ""
    except InputError as error:
        return None, str(error)


@a_few
@given(value=VALUES, length=st.integers(1, 4))
def test_a_field_has_the_type_asked_for_or_is_refused_by_its_key(value, length):
    fields = Fields({"key": value}, "a.json")
    for read, is_right in (
        (lambda: fields.number("key", above=0), lambda got: 0 < got <= LARGEST),
        (lambda: fields.count("key"), lambda got: isinstance(got, int) and got > 0),
        (lambda: fields.numbers("key", length), lambda got: np.isfinite(got).all()),
        (lambda: fields.rows("key", length), lambda got: np.isfinite(got).all()),
        (lambda: fields.flag("key"), lambda got: isinstance(got, bool)),
        (lambda: fields.text("key"), lambda got: isinstance(got, str) and got),
        (lambda: fields.texts("key"), lambda got: all(isinstance(text, str) for text in got)),
        (lambda: fields.like("key", 3), lambda got: type(got) is int and abs(got) < 2**63),
        (lambda: fields.objects("key"), lambda got: all(isinstance(f, Fields) for f in got)),
    ):
        got, message = outcome(read)
        assert message.startswith("a.json") if message else is_right(got)
        assert not message or "key" in message


@a_few
@given(values=VALUES)
def test_any_json_is_a_configuration_a_record_a_path_or_refused(values):
    file = Fields(values if isinstance(values, dict) else {"path": values}, "a.json")
    outcome(lambda: Config.from_json(values))
    outcome(lambda: read_as(Scene, Fields.of(values, "a.json")))
    outcome(lambda: read_path(file))


@pytest.mark.parametrize("folder", [".", "scene", "/elsewhere/scene"])
@a_few
@given(name=PATHS)
def test_no_name_leads_to_a_file_outside_the_scene(folder, name):
    seen, folder = [], Path(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.path.isfile", lambda path: bool(seen.append(Path(path))))
        ImageSearch(folder, roots=[folder / "images"])._named(name)
    assert not [path for path in seen if leads_out(path, folder)]
    mask, _ = outcome(lambda: file_of(Fields({"mask_path": name}, "a.json"), "mask_path", folder))
    assert mask is None or not leads_out(mask, folder)


@a_few
@given(quaternion=st.tuples(*[st.floats(allow_nan=True)] * 4))
def test_a_quaternion_is_a_rotation_or_refused(quaternion):
    rotation, _ = outcome(lambda: rotation_of(quaternion, "a"))
    if rotation is not None:
        assert rotation.T @ rotation == pytest.approx(np.eye(3), abs=1e-9)


@a_few
@given(
    turns=st.lists(st.tuples(*[st.integers(-9, 9)] * 4).filter(any), min_size=1, max_size=4),
    place=st.floats(-1e6, 1e6),
    fov=st.floats(1e-3, 3.0),
    seconds=st.none() | st.floats(1e-3, 3600),
    closed=st.booleans(),
)
def test_a_saved_path_is_read_to_the_last_bit(tmp_path, turns, place, fov, seconds, closed):
    quaternions = np.array(turns) / np.linalg.norm(turns, axis=1, keepdims=True)
    poses = [np.c_[turn, [place, -2.0, 3.5]] for turn in matrices(quaternions)]
    CameraPath([Keyframe(pose, fov, seconds) for pose in poses], closed).save(tmp_path / "a.json")
    again = CameraPath.load(tmp_path / "a.json")
    assert again.closed == closed
    for keyframe, pose in zip(again.keyframes, poses, strict=True):
        np.testing.assert_array_equal(keyframe.pose, pose)
        assert (keyframe.fov, keyframe.seconds) == (fov, seconds)


CORPUS = Path(__file__).with_name("corpus")
"""Inputs READER/NAME.FILE that once caused a failure. Each replaces the reader's FILE."""
INPUTS = 30
"""Mutated inputs of each reader; scripts/fuzz.py has read more than a million."""


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", READERS)
def test_a_mutated_file_is_read_or_refused(tmp_path, name):
    reader, folder = READERS[name], tmp_path / "files"
    reader.write(folder)
    assert attempt(reader.read, folder) is None, "its own files are refused"
    rng, refused = random.Random(name), 0
    for _ in range(INPUTS):
        file = rng.choice(reader.files(folder))
        valid = file.read_bytes()
        file.write_bytes(mutation_of(file.name)(valid, rng))
        refused += attempt(reader.read, folder) is not None
        file.write_bytes(valid)
    assert refused, "no mutation did any harm"


@pytest.mark.parametrize("found", sorted(CORPUS.glob("*/*")), ids=lambda path: path.name)
def test_what_fuzzing_found_is_read_or_refused_in_one_line(tmp_path, found):
    reader, folder = READERS[found.parent.name], tmp_path / "files"
    reader.write(folder)
    (file,) = (path for path in reader.files(folder) if found.name.endswith(f".{path.name}"))
    file.write_bytes(found.read_bytes())
    message = attempt(reader.read, folder)
    assert message is None or "\n" not in message.strip()
