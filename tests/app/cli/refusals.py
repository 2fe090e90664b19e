"""How the command line refuses: in one line that names the culprit, with nothing written."""

from tests.scene_factory import FLAGS, nerfmac


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(capsys, tmp_path, *arguments, names):
    """Exit code 2, one line on stderr with each of `names`, no file made or changed."""
    before = everything(tmp_path)
    assert nerfmac(*arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    assert line.startswith("nerfmac: ")
    for name in names:
        assert str(name) in line, f"{name!r} is not in: {line}"
    assert everything(tmp_path) == before


def train_refused(capsys, tmp_path, scene, *flags, names):
    out = tmp_path / "new" / "run"
    flags = (*FLAGS, *(flags or ("--steps", 1)))
    refused(capsys, tmp_path, "train", scene, *flags, "--out", out, names=names)
    assert not out.parent.exists()
