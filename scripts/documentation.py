"""Hook of MkDocs (mkdocs.yml) that generates pages of the documentation.

The references of the commands and of the configuration are generated from the code. Pages such as
CHANGELOG.md are copied from the root of the repository. Links in these pages, and links to these
pages, are converted to links of the site.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from inspect import getdoc
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from nerfmac.app.cli import COMMANDS, GROUPS
from nerfmac.app.cli.arguments import Argument, declared, documentation, positionals_of
from nerfmac.app.cli.help import EXAMPLES
from nerfmac.app.cli.options import OPTIONS
from nerfmac.config import Config
from nerfmac.config.presets import PRESETS

ROOT = Path(__file__).resolve().parent.parent

PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "THIRD_PARTY.md": "licenses.md",
}
"""Site page for each Markdown file in the repository root. Only README.md has a separate page.
"""

COPIED = ("data/*.png", "data/*.jpg", "data/*.webp", "notebooks/*.ipynb", "LICENSE")
"""Files that pages link to. The site contains them under the same names."""

MATTER = (
    *("grid.levels", "grid.log2_entries", "grid.finest", "networks.width", "march.steps"),
    *("march.max_samples", "march.near", "occupancy.resolution", "optimizer.rate"),
    "train.steps",
)
"""The ten settings to try first."""

LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)(?=[)#])")
"""The path of a relative link or image in Markdown, without its anchor."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages and the files that pages link to."""
    made = {"commands.md": commands(), "configuration.md": configuration()}
    for name, page in PAGES.items():
        if page != "index.md":
            made[page] = with_links((ROOT / name).read_text(encoding="utf-8"), "")
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    for path in sorted(path for pattern in COPIED for path in ROOT.glob(pattern)):
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Convert links to files outside docs/ in a page to links of the site."""
    return markdown if page.file.generated_by else with_links(markdown, "docs")


def with_links(text: str, folder: str) -> str:
    """Convert the links in a Markdown file to links of the site. `folder` is the folder of the file
    in the repository."""

    def there(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link[0]))
        return PAGES.get(path, path.removeprefix("docs/"))

    return LINK.sub(there, text)


def commands() -> str:
    """Return the page of all commands with their options."""
    parts = [
        "# Commands",
        "This page lists all commands and their options. `nerfmac COMMAND --help-all` prints the "
        "same text. Every command accepts `--log-file FILE`, to write the complete log to a file. "
        "An option such as `--masks` has a counterpart, `--no-masks`.",
    ]
    for title, group in GROUPS.items():
        named = [f"- [`nerfmac {name}`](#nerfmac-{name}): {text}" for name, text in group.items()]
        parts += [title, "\n".join(named)]
    for name in COMMANDS:
        arguments = OPTIONS[name]
        values = "".join(f" {argument.value}" for argument in positionals_of(arguments))
        parts += [f"## nerfmac {name}", prose(getdoc(arguments) or "")]
        parts.append(f"```text\nnerfmac {name}{values} [OPTIONS]\n```")
        all_arguments = declared(arguments)
        if shown := [argument for argument in all_arguments if not is_setting(argument)]:
            rows = [row(argument) for argument in shown]
            parts.append("\n".join(["| Option | Effect | Default |", "| --- | --- | --- |", *rows]))
        if len(shown) < len(all_arguments):
            parts.append("The settings of the [configuration](configuration.md) are also options.")
        examples = "\n".join(f"nerfmac {name} {words}".rstrip() for words in EXAMPLES[name])
        parts.append(f"```text\n{examples}\n```")
    return "\n\n".join(parts) + "\n"


def is_setting(argument: Argument) -> bool:
    """Return whether `argument` is a setting of the configuration, such as --grid.levels."""
    return "." in argument.name


def row(argument: Argument) -> str:
    """Return the row of an argument in the table of its command."""
    value = argument.value.replace("|", "&#124;<wbr>") if argument.is_option else ""
    is_told = isinstance(argument.default, int | float | str) and argument.default != ""
    default = f"`{shown(argument.default)}`" if is_told else ""
    name = f"<code>{argument.name}</code> <em>{value}</em>"
    return f"| {name} | {prose(cell(argument.text))} | {default} |"


def configuration() -> str:
    """Return the page of all settings with their values in each preset."""
    parts = [
        "# Configuration",
        "This page lists all settings of a run and their values in each preset: `tiny`, `small`, "
        "`base`, and `big`. Each setting is an option of `nerfmac train`, such as "
        "`--grid.levels 12`, and is saved with the run in `config.json`. The ten settings with a "
        "star ★ have the largest effect. Try these settings first.",
    ]
    for name, part in [("", Config), *parts_of()]:
        title = f"`--{name}`" if name else "Run"
        parts += [f"## {title}", prose((getdoc(part) or "").partition("\n\n")[0]) if name else ""]
        head = "| Setting | Effect | " + " | ".join(PRESETS) + " |"
        rows = [
            setting_row(name, field.name, part) for field in fields(part) if is_plain(field.name)
        ]
        parts.append("\n".join([head, "| --- " * (2 + len(PRESETS)) + "|", *rows]))
    return "\n\n".join(filter(None, parts)) + "\n"


def parts_of() -> Iterator[tuple[str, type]]:
    """Return the name and the class of each nested dataclass of the configuration."""
    for field in fields(Config):
        if is_dataclass(value := getattr(Config(), field.name)):
            yield field.name, type(value)


def is_plain(name: str) -> bool:
    """Return whether the field `name` of `Config` is a single setting and not a nested dataclass
    with several settings."""
    return not is_dataclass(getattr(Config(), name, None))


def setting_row(part: str, name: str, record: type) -> str:
    """Return the table row of setting `name` in the nested dataclass `part`, or in `Config` itself
    if `part` is ""."""
    full = f"{part}.{name}" if part else name
    values = [getattr(config, part) if part else config for config in PRESETS.values()]
    texts = [shown(getattr(value, name)) for value in values]
    same = [texts[0], *("" for _ in texts[1:])] if len(set(texts)) == 1 else texts
    star = " ★" if full in MATTER else ""
    flag = f"--{full}".replace("_", "-")
    told = prose(cell(documentation(record)[name]))
    return f"| `{flag}`{star} | {told} | " + " | ".join(same) + " |"


def shown(value: Any) -> str:
    """Format the value of a setting like the value of an option."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return "auto" if value is None else str(value)


def cell(text: str) -> str:
    """Escape `text` for the cell of a Markdown table."""
    return text.replace("|", "\\|")


def prose(text: str) -> str:
    """Convert `text` from the source code to Markdown: format flags as code, and escape characters
    with a meaning in Markdown."""
    text = re.sub(r"(?<![`\w-])(--[a-z][\w.-]*\w)(?!`)", r"`\1`", text)
    return text.replace("<", "&lt;").replace("^", "\\^").replace("_", "\\_")
