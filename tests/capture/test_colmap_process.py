"""What COLMAP's process tells of its progress."""

from nerfmac.capture.colmap_process import _Told


def test_models_that_are_begun_again_are_not_counted_twice(capsys):
    told = _Told()
    told.begin()
    told.add()
    told.begin()
    told.add()
    told.add()
    told.add()
    lines = [int(line) for line in capsys.readouterr().out.split()]
    assert lines == [2, 1, 1, 1]
