"""Report wording that technical documentation avoids, in hits per 1,000 words.

    python scripts/prose_check.py [--limit N] [--list] [PATH ...]

The script reads the prose of Markdown files and notebooks, the docstrings, comments, and error
messages of Python files, and the comments of kernels, shaders, and JavaScript. By default, it reads
the whole project except the frozen benchmark log. Docstrings and comments of tests are reported
separately. Code, links, and quotations do not count. With `--list`, each hit is shown with a
suggestion. With `--limit`, the exit code is 1 if a kind of text has more hits per 1,000 words, or
if a sentence has more than `MAX_IN_SENTENCE`. Documentation of MLX has 1.5 to 2.8 hits per 1,000
words.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PATHS = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs",
    "notebooks",
    "nerfmac",
    "kernels",
    "scripts",
    "tests",
)
FROZEN = ROOT / "docs" / "benchmark-log.md"
ERRORS = ("InputError", "DivergedError")
MAX_IN_SENTENCE = 2
KERNELS = (".metal", ".h", ".wgsl", ".cpp")
TEST_KINDS = {
    "docstrings": "test docstrings",
    "errors": "test docstrings",
    "comments": "test comments",
    "kernel comments": "test comments",
    "page comments": "test comments",
}
SUFFIXES = (".md", ".ipynb", ".py", ".js", *KERNELS)

RULES = (
    # Words that have a standard term.
    (r"(?i)\bpictures?\b", "image, photo, or rendering"),
    (r"(?i)\bfilms?\b(?! (?:it|an|your|something|the (?:object|scene)|for))", "video"),
    (r"(?i)\bthings?\b", "object"),
    (r"(?i)\bmatter\b(?! of)", "density"),
    (r"(?i)\bveil\b", "haze"),
    (r"(?i)\b(?:an?|the|its) endings?\b|\bending of\b", "file extension"),
    (r"(?i)\bthe sky\b", "the up direction"),
    (r"(?i)\bnumbers of (?:the|a|this)\b", "parameters or settings of"),
    (r"(?i)\bin the mean\b", "on average"),
    (r"(?i)\bgo(?:es)? on\b|\bgoing on\b", "continue, resume"),
    (r"(?i)\blearnt\b", "learned"),
    (r"(?i)\bof (?:your|one's|its|their) own\b", "a separate or custom one"),
    # Pronouns and clauses without a noun.
    (r"(?i)\b(?:those|that) of\b(?! the same)", "repeat the noun"),
    (r"(?i)\b(?:does|do|did) so\b", "repeat the verb"),
    (r"(?i)\bsuch an? \w+", "specify which one"),
    (r"^What (?!is the |do |does |are you )\w+ .*[^?]$", "begin with the noun"),
    (
        r"(?<=[a-z,:;] )what (?:is|are|was|were|has|a|an|the|it|they|its|stands|lies|cannot|can"
        r"|each|every)\b",
        "name the noun",
    ),
    (r"(?i)\bif there (?:is|are) (?:one|any|none|some)\b", "if available, or name the condition"),
    (r"(?i)\belse (?:the|its|by|every|a|estimated)\b|, else\b", "otherwise, in a whole sentence"),
    # Figures of speech.
    (r"(?i)\b(?:says?|tells?|asks|knows|wants?|meets?)\b", "specifies, describes, reports, needs"),
    (r"(?i)\b(?:stands|lies|lie) (?!down)\w+", "is"),
    (r"(?i)\bbeside\b", "next to, alongside, compared with"),
    (r"(?i)\b(?:nobody|somebody|whoever)\b", "a user; no one has ... yet"),
    (r"(?i)\b(?:meanwhile|anew|afresh|thereby|to and fro)\b", "rewrite"),
    (r"(?i)\bnothing (?:is|nearer|that)\b", "no X is"),
    (r"(?i)\bby (?:name|device|estimate|keyboard|that|which)\b", "use a verb"),
    (r"(?i)\b(?:left|leaves?|leave) out\b", "omit, exclude, skip"),
    (r"(?i)\bbrings?\b", "installs, provides, includes"),
    (r"(?i)\bwhose\b|, which\b|\b(?:of|by|in|on|from|with|at|to) which\b", "two sentences"),
    (
        r"(?i)\bof (?:\w+[\w'-]* ){1,3}of (?:\w+[\w'-]* ){1,3}of\b|\b(?:the|a) \w+ of a (?:run|step"
        r"|image|scene|ray|video|page|frame|file|folder|view|camera|crop|mesh|kernel)\b",
        "compound noun, such as: training step time",
    ),
)


class Sentence(NamedTuple):
    """Sentence, with its kind of text and its source file."""

    kind: str  # such as "docstrings"
    path: Path
    text: str


def sentences(path: Path) -> Iterator[Sentence]:
    """Yield the sentences in `path`. Its file extension must be in `SUFFIXES`."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        kinds = {"documentation": markdown(text)}
    elif path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        prose = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
        kinds = {"notebooks": markdown("\n\n".join(prose))}
    elif path.suffix in KERNELS:
        kinds = {"kernel comments": c_comments(text)}
    elif path.suffix == ".js":
        kinds = {"page comments": c_comments(text)}
    else:
        tree = ast.parse(text)
        kinds = {
            "docstrings": docstrings(tree),
            "comments": comments(text),
            "errors": errors(tree),
        }
    is_test = "tests" in path.parts[len(ROOT.parts) if path.is_relative_to(ROOT) else 0 :]
    for kind, found in kinds.items():
        named = TEST_KINDS.get(kind, kind) if is_test else kind
        yield from (Sentence(named, path, sentence) for sentence in found)


def markdown(text: str) -> Iterator[str]:
    """Return the sentences of paragraphs, lists, and tables, without code and headings."""
    text = re.sub(r"(?ms)^\s*(```|~~~).*?^\s*\1\s*$", "", text)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*|]|\d+\.)\s)", text):
        if re.match(r"    |\s*(#|!\[|:::|<)", block):
            continue
        for part in re.split(r"(?<!\\)\|", block) if block.lstrip().startswith("|") else [block]:
            yield from split(re.sub(r"^\s*([-*]|\d+\.)\s+", "", part))


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Return the sentences of docstrings, including the docstrings of constants and fields."""
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            value = child.value if isinstance(child, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                for paragraph in re.split(r"\n\s*\n", value.value):
                    if ">>>" not in paragraph:
                        yield from split(paragraph)


def comments(source: str) -> Iterator[str]:
    """Return the sentences of comments; lines that follow one another are one comment."""
    block: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            block.append(token.string.lstrip("#: "))
        elif token.type != tokenize.NL and block:
            text = " ".join(block)
            if not re.search(r"noqa|type: ignore|SPDX", text):
                yield from split(text)
            block = []


def c_comments(source: str) -> Iterator[str]:
    """Return the sentences of `//` and `/* */` comments, without indented formulas."""
    for block in re.findall(r"(?:^[ \t]*//.*\n)+|(?<=[\s;{}(),])//.*|/\*(?s:.*?)\*/", source, re.M):
        lines = [re.sub(r"^\s*(?://|/\*+|\*/|\*)", "", line) for line in block.splitlines()]
        kept = ["" if line.startswith("    ") else line.replace("*/", "") for line in lines]
        for paragraph in re.split(r"\n\s*\n", "\n".join(kept)):
            yield from split(paragraph)


def errors(tree: ast.Module) -> Iterator[str]:
    """Return the messages of exceptions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ERRORS and node.args:
            parts = [part for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)]
            text = " X ".join(part.value for part in parts if isinstance(part.value, str))
            if len(re.findall(r"[a-z]{2,}", text)) > 2:
                yield re.sub(r"\s+", " ", text)


def split(text: str) -> Iterator[str]:
    """Return the sentences of at least three words of a paragraph, without code and links."""
    text = re.sub(r"`+[^`]*`+", "CODE", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"https?://\S+", "URL", text)
    text = re.sub(r"\s+", " ", text).strip()
    for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z\"'(\[])", text):
        if len(sentence.split()) >= 3:
            yield sentence


def hits(sentence: str) -> Iterator[tuple[str, str]]:
    """Return each wording to avoid, and what to write instead; quotations do not count."""
    text = re.sub(r"\"[^\"]*\"|“[^”]*”", "QUOTE", sentence)
    for pattern, suggestion in RULES:
        for found in re.finditer(pattern, text):
            yield found[0], suggestion


def files(paths: list[Path]) -> Iterator[Path]:
    """Return the files with one of the `SUFFIXES` in files and folders."""
    for path in paths:
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (file for file in inside if file.suffix in SUFFIXES and file.resolve() != FROZEN)


def main() -> int:
    """Check the files; return the exit code."""
    parser = argparse.ArgumentParser(description="Report wording to avoid in the project's prose.")
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    parser.add_argument("--limit", type=float, help="hits per 1,000 words that are allowed")
    parser.add_argument("--list", action="store_true", help="show each hit")
    arguments = parser.parse_args()
    words: dict[str, int] = {}
    found: dict[str, int] = {}
    is_bad = False
    for path in files(arguments.paths or [ROOT / name for name in PATHS]):
        for kind, _, text in sentences(path):
            words[kind] = words.get(kind, 0) + len(text.split())
            in_sentence = list(hits(text))
            found[kind] = found.get(kind, 0) + len(in_sentence)
            too_many = len(in_sentence) > MAX_IN_SENTENCE
            is_bad = is_bad or too_many
            for wording, suggestion in in_sentence:
                if arguments.list or too_many:
                    print(f"{path}: {wording!r}: {suggestion}\n    {text[:160]}")
    rates = {kind: 1000.0 * found.get(kind, 0) / count for kind, count in words.items()}
    for kind, rate in rates.items():
        print(f"{kind:20}{words[kind]:7} words {found.get(kind, 0):5} hits {rate:6.1f} per 1,000")
    if arguments.limit is None:
        return 0
    return int(is_bad or max(rates.values(), default=0.0) > arguments.limit)


if __name__ == "__main__":
    sys.exit(main())
