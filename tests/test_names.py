"""The names that a user of the package finds."""

import subprocess
import sys

import nerfmac


def test_every_public_name_is_listed_and_there():
    assert len({*nerfmac.__all__}) == len(nerfmac.__all__)
    assert dir(nerfmac) == sorted(nerfmac.__all__)
    assert "Viewer" in dir(nerfmac)
    for name in nerfmac.__all__:
        assert getattr(nerfmac, name) is not None


def test_the_notebooks_packages_wait_until_the_viewer_is_asked_for():
    code = "import sys, nerfmac; dir(nerfmac); print('anywidget' in sys.modules); "
    code += "nerfmac.Viewer; print('anywidget' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
