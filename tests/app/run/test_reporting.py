"""The progress bar of training."""

import io
from types import SimpleNamespace

import pytest

from nerfmac.app.run.reporting import postfix, training_bar
from nerfmac.training.goal import Report


@pytest.mark.parametrize(
    ("limit", "unit", "done"), [(30_000.0, "steps", 29_999.0), (3600.0, "s", 1234.0)]
)
def test_the_bar_has_room_in_80_columns(monkeypatch, limit, unit, done):
    monkeypatch.setenv("COLUMNS", "80")
    report = Report(
        state=SimpleNamespace(step=29_999),
        loss=0.01,
        psnr=31.26,
        progress=0.5,
        rays_per_second=1.4e6,
        samples_per_second=5e7,
    )
    with training_bar(0.0, limit, unit, shown=True) as bar:
        bar.fp, bar.ncols, bar.dynamic_ncols = io.StringIO(), 80, False
        bar.set_postfix_str(postfix(report), refresh=False)
        bar.update(done)
        line = str(bar)
    assert len(line) <= 80
    assert line.count("█") >= 5, line
    assert "31.3 dB, 1400k rays/s" in line
