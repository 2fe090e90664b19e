"""Mutations by a `random.Random` that know a file's format: nearly right, and wrong in places.

Bytes of another format, as a coverage-guided fuzzer may hand in, are changed as plain bytes.
"""

import ast
import json
import math
import random
import struct
import zlib
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import msgpack

import nerfmac

Mutation = Callable[[bytes, random.Random], bytes]

INTEGERS = (0, 1, -1, 2, 255, *(2**n + more for n in (15, 16, 31, 32, 63, 64) for more in (0, -1)))
NUMBERS = (0.0, -0.0, 0.5, -1.0, 1e-320, 1e-30, 1e15, 1.1e15, 1e308, math.inf, -math.inf, math.nan)
TEXTS = ("", ".", "..", "../a.png", "/", "/etc/hostname", "\0", "a\nb", "\ud800", "ü", "x" * 300)
EMPTY = (None, True, False, [], {}, [[]], [{}], [0.0] * 3, [[0.0] * 4] * 4, 10**30)
MOST_BYTES = 2**16
"""Longest mutated input, so that each takes little time; longer valid files stay as long."""


@cache
def words() -> tuple[str, ...]:
    """The words of the formats: every short text in the code of the readers' rooms."""
    package = Path(nerfmac.__file__).parent
    found = set()
    for room in ("scenes", "snapshots", "paths", "config", "training", "run", "common"):
        for path in package.joinpath(room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.update(node.value.split() if len(node.value) < 40 else ())
    return tuple(sorted(word for word in found if word.isidentifier()))


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, length = (
            rng.randrange(len(changed) + 1),
            rng.choice((1, 2, 4, 8, 16, rng.randrange(64))),
        )
        part = bytes(changed[at : at + length])
        match rng.randrange(6):
            case 0:
                changed[at : at + length] = rng.randbytes(len(part))
            case 1:
                layout = rng.choice(("<B", "<H", "<I", "<Q", ">H", ">I"))
                size = struct.calcsize(layout)
                number = rng.choice((*INTEGERS, rng.randrange(256))) % 2 ** (8 * size)
                changed[at : at + size] = struct.pack(layout, number)
            case 2:
                changed[at : at + 8] = struct.pack("<d", rng.choice(NUMBERS))
            case 3:
                del changed[at : rng.choice((at + length, len(changed)))]
            case 4:
                changed[at:at] = part * rng.choice((1, 2, 50))
            case _:
                there = rng.randrange(len(changed) + 1)
                changed[there : there + len(part)] = part
    return bytes(changed[: max(MOST_BYTES, len(data))])


def mutate_text(data: bytes, rng: random.Random) -> bytes:
    text = data.decode("utf-8", "surrogateescape")
    for _ in range(rng.choice((1, 1, 2, 4))):
        lines = text.split("\n")
        at = rng.randrange(len(lines))
        parts = lines[at].split(" ")
        index = rng.randrange(len(parts))
        match rng.randrange(7):
            case 0:
                parts[index] = str(rng.choice((*NUMBERS, *INTEGERS, *TEXTS, "9" * 400, "9" * 5000)))
            case 1:
                parts[index] = rng.choice((rng.choice(words()), rng.choice(text.split() or [""])))
            case 2:
                del parts[index]
            case 3:
                parts.insert(index, rng.choice(parts))
            case 4:
                lines.insert(rng.randrange(len(lines)), lines[at])
            case 5:
                parts = []
            case _:
                parts = parts[:index]
        lines[at] = " ".join(parts)
        text = "\n".join(lines)
    changed = text.encode("utf-8", "surrogatepass" if "\ud800" in text else "surrogateescape")
    return changed[:MOST_BYTES] if rng.random() < 0.9 else mutate_bytes(changed, rng)


def mutate_tree(values: Any, rng: random.Random, others: Sequence[Any] = ()) -> Any:
    """A copy of JSON-like values with one to four of them changed; `others` go anywhere too."""
    values = deepcopy(values)
    for _ in range(rng.choice((1, 1, 2, 4))):
        holder, key = _place(values, rng)
        if holder is None:
            values = _value(values, rng, others)
        elif (choice := rng.randrange(8)) == 0:
            del holder[key]
        elif choice == 1 and isinstance(holder, list):
            holder.insert(key, deepcopy(rng.choice(holder)))
        elif choice in (1, 2) and isinstance(holder, dict):
            holder[rng.choice(words())] = _value(values, rng, others)
        elif choice == 3:  # moved, or under another's key
            other, there = _place(values, rng)
            holder[key] = deepcopy(other[there] if other is not None else values)
        elif choice == 4 and isinstance(holder[key], int | float):
            holder[key] *= rng.choice((-1, 0.5, 1e-6, 1e6, 1 + 1e-3))
        else:
            holder[key] = _value(values, rng, others)
    return values


def _place(values: Any, rng: random.Random) -> tuple[Any, Any]:
    """A random place within: its holder and key; None for the values as a whole."""
    holder, key = None, None
    while isinstance(values, dict | list) and len(values) and rng.random() < 0.85:
        holder = values
        key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
        values = holder[key]
    return holder, key


def _value(values: Any, rng: random.Random, others: Sequence[Any]) -> Any:
    kind = rng.randrange(6)
    if kind == 5:
        return rng.choice(words())
    if kind == 4 and others:
        return rng.choice(others)
    if kind == 3 and rng.random() < 0.05:
        for _ in range(rng.choice((50, 980))):
            values = [values] if rng.random() < 0.5 else {"a": values}
        return values
    return deepcopy(rng.choice((INTEGERS, NUMBERS, TEXTS, EMPTY)[rng.randrange(4)]))


def mutate_json(data: bytes, rng: random.Random) -> bytes:
    try:
        values = json.loads(data)
        if rng.random() < 0.9:
            return json.dumps(mutate_tree(values, rng)).encode()[:MOST_BYTES]
    except (ValueError, RecursionError):
        pass
    return mutate_text(data, rng)


def mutate_msgpack(data: bytes, rng: random.Random) -> bytes:
    try:
        inflated = zlib.decompress(data)
    except zlib.error:
        inflated = None
    if rng.random() < 0.1:
        return mutate_bytes(data, rng)
    try:
        values = msgpack.unpackb(data if inflated is None else inflated, strict_map_key=False)
        others = (b"", b"\xff" * 8, rng.randbytes(32), msgpack.ExtType(5, b"a"))
        changed = msgpack.packb(mutate_tree(values, rng, others), unicode_errors="surrogatepass")
    except (ValueError, RecursionError, OverflowError, TypeError, msgpack.UnpackException):
        changed = mutate_bytes(data if inflated is None else inflated, rng)
    return changed if inflated is None else zlib.compress(changed, 1)


def mutate_safetensors(data: bytes, rng: random.Random) -> bytes:
    """Change the header of a safetensors file, or the JSON texts in its metadata, or bytes."""
    try:
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        metadata = header.get("__metadata__", {})
        if (kind := rng.randrange(8)) == 0 or not isinstance(metadata, dict):
            return mutate_bytes(data, rng)
        if kind < 4 and metadata:
            key = rng.choice(list(metadata))
            metadata[key] = mutate_json(metadata[key].encode(), rng).decode(errors="replace")
        else:
            header = mutate_tree(header, rng)
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + data[8 + length :]
    except (struct.error, ValueError, RecursionError, AttributeError):
        return mutate_bytes(data, rng)


BY_ENDING: dict[str, Mutation] = {
    ".json": mutate_json,
    ".txt": mutate_text,
    ".ply": mutate_text,
    ".ingp": mutate_msgpack,
    ".msgpack": mutate_msgpack,
    ".safetensors": mutate_safetensors,
    "": mutate_json,  # Record3D's metadata
}


def mutation_of(name: str) -> Mutation:
    return BY_ENDING.get(Path(name).suffix, mutate_bytes)
