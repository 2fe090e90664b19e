"""The published package, and CI on hosted Macs."""

import re
import tomllib
from importlib import metadata

from packaging.requirements import Requirement

from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def required():
    """Return the names of all installed packages, and the extra that requires each; "" for all."""
    lists = {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
    pairs = [(Requirement(text).name, extra) for extra, texts in lists.items() for text in texts]
    return dict(reversed(pairs))


def licenses():
    """Return package, purpose, and license from each row of THIRD_PARTY.md."""
    text = (ROOT / "THIRD_PARTY.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\S+)` \| (.+?) \| (.+?) \|", text, re.MULTILINE)
    return {name: (purpose, license) for name, purpose, license in rows}


def test_each_package_that_is_brought_is_listed_with_what_it_is_for_and_its_license():
    told = licenses()
    assert {*told} == {*required()}
    for name, extra in required().items():
        purpose, license = told[name]
        assert f"`{extra}`" in purpose if extra else purpose.startswith("always"), name
        try:
            declared = metadata.metadata(name)
        except metadata.PackageNotFoundError:
            continue
        fields = [declared["License-Expression"], declared["License"]]
        fields += declared.get_all("Classifier") or []
        if not any("license" in field.lower() for field in filter(None, fields)):
            fields.append(declared.get_payload())  # The description of OpenEXR names its license.
        assert re.split(r"[-']", license)[0] in " ".join(filter(None, fields)), name
