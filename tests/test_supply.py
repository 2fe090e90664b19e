"""Published package: its PyPI page, its records, and the licenses of its dependencies."""

import re
import tomllib
from importlib import metadata

from packaging.requirements import Requirement

from hatch_build import CustomMetadataHook
from tests.conftest import ROOT

HOME = "https://example.com/somebody/nerfmac"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def page(monkeypatch, **variables):
    """Return the metadata that the hook adds with the environment variables of GitHub."""
    for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_REF_NAME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    filled = {}
    CustomMetadataHook(str(ROOT), {}).update(filled)
    return filled


def test_the_page_of_a_release_has_addresses_that_lead_to_files(monkeypatch):
    server, _, repository = HOME.partition("/somebody")
    filled = page(
        monkeypatch,
        GITHUB_SERVER_URL=server,
        GITHUB_REPOSITORY=f"somebody{repository}",
        GITHUB_REF_NAME="v1.2.3",
    )
    assert all(address.startswith(HOME) for address in filled["urls"].values())
    text = filled["readme"]["text"]
    led = re.findall(rf"{HOME}/(raw|blob)/v1\.2\.3/([^)\s\"#]+)", text)
    assert len(led) >= 3
    for kind, name in led:
        assert (ROOT / name).exists(), name
        assert (kind == "raw") == name.endswith((".png", ".jpg", ".gif", ".webp", ".svg")), name
    addresses = re.findall(r"\]\(([^)\s]+)|(?:src|srcset|href)=\"([^\"]+)", text)
    for address in map("".join, addresses):
        assert address.startswith(("https://", "#")), address


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
        assert re.split(r"[-']", license)[0] in " ".join(filter(None, fields)), name


def test_every_released_version_in_the_changelog_has_its_day():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first, *released = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert first == "[Unreleased]"
    assert released
    for heading in released:
        assert re.fullmatch(r"\[\d+\.\d+\.\d+\] - 20\d\d-\d\d-\d\d", heading), heading
