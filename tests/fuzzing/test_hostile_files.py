"""Files made to do harm: they run nothing, lead nowhere else, and take no memory but their own."""

import ast
import json
import pickle
import resource
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image

import nerfmac
from nerfmac import InputError, load_scene
from nerfmac.app.scenes.images import inspect
from tests.app.scenes.colmap_files import write_colmap
from tests.app.scenes.scene_files import pixels, save, write_transforms
from tests.app.scenes.test_phone_captures import rows, write_llff
from tests.fuzzing.readers import READERS, attempt

pytestmark = pytest.mark.usefixtures("on_the_cpu")

UNPICKLING = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "torch"}
HUGE = [[1e308, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]


class Harm:
    """Unpickled, it makes the file `path`."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def test_the_product_unpickles_nothing_and_runs_no_text():
    calls = 0
    for path in Path(nerfmac.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            where = f"{path.name}, line {getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] + [getattr(node, "module", "") or ""]
                assert not {name.split(".")[0] for name in names} & UNPICKLING, where
            if not isinstance(node, ast.Call):
                continue
            keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            called = ast.unparse(node.func)
            assert called not in ("eval", "exec", "os.system"), where
            assert keywords.get("shell", "False") == "False", where
            assert keywords.get("allow_pickle", "False") == "False", where
            if called in ("np.load", "numpy.load"):
                calls += 1
                assert "allow_pickle" in keywords, where
    assert calls, "the reader of LLFF's files calls np.load"


def test_an_array_of_objects_is_refused_and_not_unpickled(tmp_path):
    write_llff(tmp_path, 3)
    table = rows(3).astype(object)
    table[1, 2] = Harm(tmp_path / "harm")
    np.save(tmp_path / "poses_bounds.npy", table, allow_pickle=True)
    with pytest.raises(InputError, match=r"poses_bounds\.npy is not a NumPy array"):
        load_scene(tmp_path)
    (tmp_path / "poses_bounds.npy").write_bytes(pickle.dumps(Harm(tmp_path / "harm")))
    with pytest.raises(InputError, match=r"poses_bounds\.npy is not a NumPy array"):
        load_scene(tmp_path)
    assert not (tmp_path / "harm").exists()


def test_a_program_in_the_place_of_an_image_is_not_run(tmp_path, monkeypatch):
    fail = lambda *_: pytest.fail("Ghostscript was called")  # noqa: E731
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", fail)
    text = "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 24 16\n%%EndComments\nshowpage\n"
    for name in ("a.png", "a.jpg", "a.tif"):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=f"{name} is not a readable image"):
            inspect(tmp_path / name)


JSON_READERS = [
    name
    for name, reader in READERS.items()
    if any(pattern.endswith((".json", "metadata")) for pattern in reader.changed)
]


@pytest.mark.parametrize("depth", [100, 400, 700, 900, 10_000])
@pytest.mark.parametrize("name", JSON_READERS)
def test_json_nested_deeply_is_refused(tmp_path, name, depth):
    reader, folder = READERS[name], tmp_path / "files"
    reader.write(folder)
    files = [path for path in reader.files(folder) if path.suffix in ("", ".json")]
    for file in files:
        valid = file.read_bytes()
        keys = list(json.loads(valid))
        for key in (keys[0], keys[-1]):
            nested = f"{'[' * depth}{']' * depth}"
            values = json.dumps(json.loads(valid) | {key: "HERE"})
            file.write_text(values.replace('"HERE"', nested))
            attempt(reader.read, folder)  # a key may be one that is not read
        file.write_text('{"a":' * depth + "1" + "}" * depth)
        assert attempt(reader.read, folder) or depth < 10_000  # unknown keys may be passed over
        file.write_bytes(valid)


@pytest.mark.parametrize("given", [".", "transforms.json", "absolute"])
@pytest.mark.parametrize("name", ["../secret.png", ".", "images/..", "..", "/secret", "../scene"])
def test_no_name_leads_out_of_the_scene_however_that_is_named(tmp_path, monkeypatch, given, name):
    scene = tmp_path / "scene"
    name = str(tmp_path / "secret.png") if name == "/secret" else name
    save(tmp_path / "secret.png", pixels(7))
    save(tmp_path / "scene.png", pixels(8))  # the folder's name with a file extension
    monkeypatch.chdir(write_transforms(scene, 3, frame={1: {"file_path": name}}).parent)
    path = scene if given == "absolute" else Path(given)
    found = [frame.image.resolve() for frame in load_scene(path, split="none").splits["train"]]
    assert found == [scene / "images/000.png", scene / "images/002.png"]
    write_transforms(scene, 3, frame={1: {"mask_path": name}})
    with pytest.raises(InputError, match=r"frame 1 .*: mask_path is"):
        load_scene(path)


@pytest.mark.parametrize("name", ["x" * 300, "x/" * 3000, "a\0b"])
def test_names_that_no_file_can_have_are_of_no_file(tmp_path, name):
    values = {"file_path": name}
    path = write_transforms(tmp_path, 3, frame={1: values}, ply_file_path=name)
    assert len(load_scene(path, split="none").splits["train"]) == 2
    path = write_transforms(tmp_path, 3, frame={1: {"mask_path": name}})
    with pytest.raises(InputError, match="mask"):
        load_scene(path)


def test_poses_beyond_reason_are_refused(tmp_path):
    path = write_transforms(tmp_path / "a", 3, frame={1: {"transform_matrix": HUGE}})
    with pytest.raises(InputError, match=r"frame 1 .*row 0 is .*finite numbers"):
        load_scene(path)
    write_colmap(tmp_path / "b", 3)
    images = tmp_path / "b/sparse/0/images.bin"
    content = bytearray(images.read_bytes())
    content[8 + 4 + 32 : 8 + 4 + 40] = struct.pack("<d", 1e308)  # the first image's x
    images.write_bytes(content)
    with pytest.raises(InputError, match=r"000\.png has the position .*finite numbers"):
        load_scene(tmp_path / "b")
    table = rows(3)
    table[1, 3] = 1e308
    with pytest.raises(InputError, match="not finite"):
        load_scene(write_llff(tmp_path / "c", 3, table=table))


def sized(path: Path, width: int, height: int) -> Path:
    """Write an image with a wrong size in its header; a PNG has a correct checksum."""
    Image.fromarray(pixels(1)).save(path)
    data = bytearray(path.read_bytes())
    if path.suffix == ".png":
        data[16:24] = struct.pack(">II", width, height)
        data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
    elif path.suffix == ".bmp":
        data[18:26] = struct.pack("<II", width, height)
    else:
        start = data.index(b"\xff\xc0") + 5
        data[start : start + 4] = struct.pack(">HH", height, width)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("ending", ["png", "jpg", "bmp"])
@pytest.mark.parametrize("size", [(0, 0), (0, 16), (60_000, 60_000), (9_000, 8_000)])
def test_sizes_that_no_file_of_its_length_has_are_refused_by_the_header(tmp_path, ending, size):
    write_llff(tmp_path, 2, table=rows(3))
    path, before = sized(tmp_path / f"images/002.{ending}", *size), memory()
    for read, given in ((inspect, path), (load_scene, tmp_path)):
        with pytest.raises(
            InputError, match=rf"002\.{ending} (is not a readable|has only \d+ bytes)"
        ):
            read(given)
    assert memory() - before < 2**26
