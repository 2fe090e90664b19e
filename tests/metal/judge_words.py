"""Checks of Metal rules about single words and pointers in the source code of a kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tests.metal.judge_rules import Complaint, Rule

ADDRESS_SPACES = {"device", "constant", "threadgroup", "thread"}

_QUALIFIERS = {*ADDRESS_SPACES, "const", "volatile"}

_KEYWORDS = {"kernel", "vertex", "fragment"}

_MISSING = {  # of C++, in Metal
    "double": Rule.DOUBLE,
    **dict.fromkeys(("new", "delete", "goto", "virtual", "throw", "try"), Rule.CPP),
    **dict.fromkeys(("dynamic_cast", "typeid", "noexcept", "thread_local", "register"), Rule.CPP),
}

_BEFORE_LAMBDA = {"(", ",", "=", "{", "}", ";", "return"}  # an index follows an array expression

_OURS = re.compile(r"runtime|__\w+|METAL_(?!FUNC$)\w+")  # the judge's header's, not Metal's

_TOKEN = re.compile(
    r'(?P<name>[A-Za-z_]\w*)|\.?\d(?:[eE][+-]|[\w.])*|\[\[|\]\]|&&|->|::|"[^"\n]*"|[^\s\w]'
)
_SCALAR = "bool|char|uchar|short|ushort|int|uint|long|ulong|half|float"
_TYPE = re.compile(
    rf"(?:{_SCALAR})[234]?|u?int(?:8|16|32|64)_t|bfloat|b?float16_t|size_t|unsigned|void|auto"
    r"|atomic(?:_\w+)?|vec|simd_vote|simdgroup_\w*(?:8x8|matrix)"
)
_DECLARED = re.compile(r"\b(?:struct|enum|class|typename|using)\s+(\w+)|\btypedef\b[^;]*?(\w+)\s*;")


class _Token(NamedTuple):
    text: str
    line: int
    is_name: bool


def complaints_of_words(text: str) -> Iterator[Complaint]:
    """Yield the rules that single words of a kernel break; `text` has no comments."""
    tokens = list(_tokens(text))
    types = {name for pair in _DECLARED.findall(text) for name in pair}
    words = [token.text for token in tokens]
    for i, token in enumerate(tokens):
        before, after = words[max(i - 1, 0)], words[min(i + 1, len(words) - 1)]
        word = token.text
        if word in ("*", "&", "&&"):
            yield from _of_pointer(words, i, types, token.line)
        if word == "[" and before in _BEFORE_LAMBDA:
            yield Complaint(Rule.CPP, token.line, "Metal has lambdas from version 3.2 on only")
        if not token.is_name:
            continue
        if word in _MISSING:
            yield Complaint(_MISSING[word], token.line, f"'{word}' is not in Metal")
        elif word == after == "long":
            yield Complaint(Rule.CPP, token.line, "'long long' is not in Metal")
        elif _OURS.fullmatch(word) and word != "__attribute__":
            yield Complaint(Rule.FUNCTION, token.line, f"'{word}' is none of Metal's names")
        elif _is_misplaced(word, before, after):
            yield Complaint(Rule.KEYWORD, token.line, f"'{word}' is a keyword")
        elif word == "static":
            yield from _of_static(words[i:], token.line)


def _of_static(words: list[str], line: int) -> Iterator[Complaint]:
    declared = []
    for word in words:
        if word in ("=", ";", "(", "{", "["):
            break
        declared.append(word)
    if word == "(" or "constant" in declared:
        return
    rule = Rule.THREADGROUP if "threadgroup" in declared else Rule.PROGRAM_SCOPE
    yield Complaint(rule, line, f"'{' '.join(declared)}' is static and not in `constant`")


def _of_pointer(words: list[str], i: int, types: set[str], line: int) -> Iterator[Complaint]:
    """Complain of a `*` or `&` that makes a type of one that names no address space."""
    end = i - 1
    if words[end] == "(":  # of `float (*f)(int)` or `float (&array)[4]`; else not in a type
        end -= 1
    specifiers: list[str] = []
    while _is_name(words[end]) or words[end] in (">", "::"):
        if words[end] == ">":
            if any(word not in _QUALIFIERS for word in specifiers):
                break
            end = _opening(words, end)
            if end < 0:
                return
        else:
            specifiers.append(words[end])
        end -= 1
    named = [word for word in specifiers if word not in _QUALIFIERS]
    if not named or not (_TYPE.fullmatch(named[0]) or named[0] in types):
        return
    said = f"{' '.join(reversed(specifiers))} {words[i]}"
    if words[i - 1] == "(":
        bracket = words[i + 1 + _is_name(words[i + 1]) :][:2]
        if bracket == [")", "("]:
            yield Complaint(Rule.FUNCTION_POINTER, line, f"'{said}' points to a function")
        if bracket != [")", "["]:
            return
    if not ADDRESS_SPACES.intersection(specifiers):
        yield Complaint(Rule.UNQUALIFIED, line, f"'{said}' names no address space")


def _tokens(text: str) -> Iterator[_Token]:
    line, at = 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        yield _Token(match[0], line, match["name"] is not None)


def _is_misplaced(word: str, before: str, after: str) -> bool:
    if word in _KEYWORDS:
        return (before, after) != ("[[", "]]")
    # Of an object, or after the parameters of a struct's function.
    return word in ADDRESS_SPACES and not (_is_name(after) or after in "*&" or before == ")")


def _is_name(word: str) -> bool:
    return word[0].isalpha() or word[0] == "_"


def _opening(words: list[str], end: int) -> int:
    """Return the index of the `<` that matches words[end], a `>`; -1 if there is no match."""
    depth = 0
    while end >= 0 and words[end] not in ("{", "}", ";"):
        depth += (words[end] == ">") - (words[end] == "<")
        if depth == 0:
            return end
        end -= 1
    return -1
