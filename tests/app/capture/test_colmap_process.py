"""Progress reports of the COLMAP process."""

from nerfmac.app.capture.colmap_process import _Progress


def test_models_that_are_begun_again_are_not_counted_twice(capsys):
    progress = _Progress()
    progress.begin()
    progress.add()
    progress.begin()
    progress.add()
    progress.add()
    progress.add()
    lines = [int(line) for line in capsys.readouterr().out.split()]
    assert lines == [2, 1, 1, 1]
