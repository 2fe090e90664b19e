"""Commands, examples, links, names, and messages in README and the documentation are valid.

Commands are parsed with the program's own parser. Commands that need only a scene or a run are
executed, on the scene of two balls.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from PIL import Image

import nerfmac
from nerfmac.app.cli import COMMANDS
from nerfmac.app.cli.arguments import given_by
from nerfmac.app.cli.options import OPTIONS
from nerfmac.config.presets import PRESETS
from tests.conftest import ROOT
from tests.scene_factory import FLAGS, nerfmac as run_nerfmac, write_scene

README = ROOT / "README.md"
LOG = ROOT / "docs" / "benchmark-log.md"  # old measurements with the commands of their time
PAGES = [README, *sorted({*(ROOT / "docs").glob("*.md")} - {LOG})]
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")

pytestmark = pytest.mark.usefixtures("on_the_cpu")


def blocks(path: Path, language: str) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return [body for _, kind, body in FENCE.findall(text) if kind == language]


def told_commands() -> Iterator[tuple[str, str]]:
    """Page and text of each command `nerfmac ...` in a block, or in code with an argument."""
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        lines = [line for body in blocks(path, "") for line in body.splitlines()]
        lines += CODE.findall(FENCE.sub("", text))
        for line in lines:
            command = re.search(r"\bnerfmac [a-z]\S* .*", line)
            if command and not re.search(r"[A-Z]{3}|\.\.\.|python", line.partition("#")[0]):
                yield path.name, command[0].partition("  #")[0].strip()


TOLD = sorted({command for _, command in told_commands()})
EXAMPLES = [
    pytest.param(path, index, id=f"{path.stem}{index}")
    for path in PAGES
    for index in range(len(blocks(path, "python")))
]


@pytest.mark.parametrize("command", TOLD)
def test_the_program_takes_a_told_command(command):
    _, name, *words = shlex.split(command)
    words = words[: words.index("--")] if "--" in words else words
    if {*words} & {"--help", "--help-all"}:
        assert run_nerfmac(name, *words) == 0
        return
    given_by(name, OPTIONS[name], words)


@pytest.fixture(scope="module")
def used(tmp_path_factory):
    folder = tmp_path_factory.mktemp("used")
    write_scene(folder / "path" / "to" / "scene")
    arguments = [*FLAGS, "--steps", "30", "--no-video", "--out", folder / "runs" / "mine"]
    assert run_nerfmac("train", folder / "path" / "to" / "scene", *arguments) == 0
    shutil.copytree(folder / "runs" / "mine", folder / "runs" / "other")
    return folder


NEEDED = re.compile(r"--match|path\.json|scene\.ingp|fox|camera_path|frames|mesh|html|glb|ply|ingp")
"""Commands that need a file which only another program makes or an extra, and slow exports."""
CHEAP = [
    command
    for command in TOLD
    if command.split()[1] in {"render", "export", "eval", "inspect"} and not NEEDED.search(command)
]


@pytest.mark.parametrize("command", CHEAP)
def test_a_cheap_command_runs_as_it_is_told(command, used, monkeypatch):
    monkeypatch.chdir(used)
    command = command.replace("runs/clip", "runs/mine").replace("captures/clip", "path/to/scene")
    _, name, *words = shlex.split(command)
    if name == "render":  # the last of two equal flags counts
        words += ["--frames", "2", "--size", "24x16", "--samples-per-pixel", "1", "--overwrite"]
    if name == "export" and "density" in words[1]:
        words += ["--resolution", "12"]
    if "--seconds" in words:
        at = words.index("--seconds")
        del words[at : at + 2]
    assert run_nerfmac(name, *words) == 0


@pytest.mark.parametrize(("page", "index"), EXAMPLES)
def test_an_example_in_python_runs(page, index, used, monkeypatch):
    monkeypatch.setattr(nerfmac, "builtin_scene_path", lambda: used / "path" / "to" / "scene")
    monkeypatch.chdir(used)
    text = blocks(page, "python")[index]
    if "nerfmac.Viewer(" in text:
        pytest.importorskip("anywidget")
    quick = text.replace("nerfmac.train(scene, goal=", 'nerfmac.train(scene, "tiny", ')
    quick = re.sub(r"seconds=\d+", "steps=4", quick)
    quick = quick.replace("resolution=64", "resolution=12, threshold=0.01")
    quick = re.sub(r"frames=240, size=\(\d+, \d+\)", "frames=2, size=(24, 16)", quick)
    names = {"PRESETS": PRESETS}
    exec(quick, names)
    if "viewer" in names:
        names["viewer"].close()


def test_the_field_of_ones_own_is_short_and_learns(used, monkeypatch):
    (text,) = (text for text in blocks(ROOT / "docs/extending.md", "python") if "Ball" in text)
    assert len(text.splitlines()) <= 30
    monkeypatch.setattr(nerfmac, "builtin_scene_path", lambda: used / "path" / "to" / "scene")
    names = {}
    exec(re.sub(r"goal=.*?seconds=\d+", '"tiny", nerfmac.Goal(steps=40', text), names)
    trained = names["run"]
    method = nerfmac.Method(field=names["Ball"])
    untrained = nerfmac.Run.begin(names["scene"], trained.config, method=method, progress=False)
    after, before = (
        np.mean([view.psnr for view in run.evaluate("test")]) for run in (trained, untrained)
    )
    assert after > before + 0.5
    assert names["image"].opacity.max() > 0.5


def slug(heading: str) -> str:
    """The anchor of a heading, as the site and code hosts make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")


def anchors(path: Path) -> set[str]:
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


@pytest.mark.parametrize(
    "path", [*PAGES, *sorted(ROOT.glob("*.md"))[:-1]], ids=lambda path: path.name
)
def test_each_link_leads_to_a_file_and_to_a_heading_that_is_there(path):
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    for link in LINK.findall(text):
        if re.match(r"\w+:", link):
            continue
        name, _, anchor = unquote(link).partition("#")
        there = (path.parent / name).resolve() if name else path
        assert there.exists(), link
        assert there.is_relative_to(ROOT), link
        assert not anchor or anchor in anchors(there), link


def test_the_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "commands" / "index.html").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f'id="nerfmac-{name}"' in page
    assert "--samples-per-pixel" in page
    settings = (tmp_path / "configuration" / "index.html").read_text(encoding="utf-8")
    assert settings.count("★") == 11  # ten settings, and the sentence that explains the star
    reference = {
        page.parent.name: page.read_text(encoding="utf-8")
        for page in tmp_path.glob("python-*/index.html")
    }
    for name in ("Samples.ray_start", "Goal.rate", "EncodedField.__call__"):
        assert any(f'id="nerfmac.{name}"' in text for text in reference.values()), name
    results = r">(?:Returns|Yields):</span>\s*</p>\s*<ul>(.*?)</ul>"
    items = [
        found[1].count("<li ")
        for text in reference.values()
        for found in re.finditer(results, text, re.DOTALL)
    ]
    assert len(items) >= 100
    assert {*items} == {1}, "a result is split into several items"
    loaded = [
        address
        for html in tmp_path.rglob("*.html")
        for address in re.findall(
            r'<(?:script|img|link rel="stylesheet")[^>]*(?:src|href)="(https?://[^"]+)"',
            html.read_text(encoding="utf-8"),
        )
    ]
    assert loaded == []


@pytest.mark.parametrize(
    ("index", "file", "image", "size"),
    [
        (0, "transforms_train.json", "train/r_{}.png", (80, 80)),
        (1, "transforms.json", "images/000{}.jpg", (192, 108)),
        (2, "metadata", "rgbd/{}.jpg", (72, 96)),
        (3, "keyframes/cameras/100.json", "keyframes/images/10{}.jpg", (102, 76)),
    ],
)
def test_the_smallest_file_of_a_format_is_read(tmp_path, index, file, image, size):
    text = blocks(ROOT / "docs" / "formats.md", "json")[index]
    for number in (0, 1):
        path = tmp_path / image.format(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size, (90, 60, 30)).save(path)
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text, encoding="utf-8")
    scene = nerfmac.load_scene(tmp_path, split="none")
    (frame,) = scene.splits["train"]
    assert frame.camera.lens.width == size[0]


def test_the_tests_of_each_guarantee_exist():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    for path, names in re.findall(r"`(tests/\S+\.py)`((?:[:,] `test_\w+`)*)", text):
        there = (ROOT / path).read_text(encoding="utf-8")
        assert [n for n in CODE.findall(names) if f"def {n}(" not in there] == [], path
