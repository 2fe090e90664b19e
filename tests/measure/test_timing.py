"""A bar says how far it is, to standard error, and is gone at the end."""

from nerfmac.measure.timing import Bar


def test_a_bar_says_how_far_it_is_and_goes(capsys):
    with Bar("training", 8, "steps") as bar:
        bar.mininterval = 0.0
        for done in (2, 6, 30):
            bar.reach(done)
            assert bar.n == min(done, 8)
    told = capsys.readouterr()
    assert told.out == ""
    shown = [line for line in told.err.split("\r") if line]
    for line, done in zip(shown, (0, 2, 6, 8), strict=False):
        assert line.startswith("training |")
        assert f"{done}/8 steps" in line
        assert line.rstrip().endswith("left")
    assert len(shown) == 5
    assert not shown[-1].strip()
