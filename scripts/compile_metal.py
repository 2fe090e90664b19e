"""Compile the Metal source code of the kernels with Apple's compiler. No GPU is needed.

    nerfmac selftest --dump-metal metal-text
    python scripts/compile_metal.py metal-text --json metal.json

Each source is compiled with the header of the installed MLX package and with each of the
`STANDARDS` that the compiler supports. Warnings are shown. After an error, the exit code is 1. If
`metal-tt` is available, each source is also translated for the `ARCHITECTURES`, and a table shows
the registers, the spilled bytes, and the code size of each translation.

Apple does not document the metadata that contains registers and spilled bytes. The format is known
from three independent public readers that were calibrated with kernels of known register pressure.
The metadata is a FlatBuffer, and field 0 of its root is a table. Field 0 of the table is the number
of 32-bit registers. Fields 14 and 41 are the spilled bytes and are absent if the kernel spills no
registers. The readers were calibrated only on the A18 Pro, the M4, and the M5. It is unknown
whether the fields have the same meaning on the M1 to the M3. No other metadata is interpreted. The
JSON file contains all metadata as hexadecimal text.
"""

import argparse
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

STANDARDS = ("metal3.1", "metal3.2", "metal4.0", "metal4.1")
"""Metal language versions of macOS 14, 15, 26, and 27."""
ARCHITECTURES = tuple(f"applegpu_g{generation}g" for generation in range(13, 18))
"""Architectures of the GPUs from M1 to M5."""
MATH = ("-fmetal-math-mode=safe", "-fmetal-math-fp32-functions=fast")
"""Flags that are equivalent to MLX's compilation at run time: the math mode is safe, and functions
such as exp have Metal's default precision, fast."""
HEADER = "mlx/backend/metal/kernels/utils.h"
"""Header that MLX inserts before the source code of a custom kernel."""
SECONDS = 120
"""Maximum time in seconds of one compilation."""
REGISTERS, SPILLED = 0, (14, 41)
"""Indices of the fields in the metadata table with the number of registers and with the spilled
bytes."""
MOST_REGISTERS = 256
"""Maximum plausible number of registers per thread. No Apple GPU is known to have more."""
_ENTRY = re.compile(r'host_name\("(?P<name>\w+)"\)|\[\[kernel\]\]\s+void\s+(?P<plain>\w+)')


class Compiled(NamedTuple):
    """Output of a tool for one source."""

    name: str
    failed: bool
    said: str


def tool(name: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run one of the Metal tools of Xcode. If it takes longer than `SECONDS`, the run fails."""
    command = ["xcrun", "-sdk", "macosx", name, *map(str, words)]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"{name} takes longer than {SECONDS} s")


def includes() -> Path:
    """Return the folder with the headers of the installed MLX package."""
    spec = find_spec("mlx")
    folders = [
        Path(place) / "include" for place in (spec and spec.submodule_search_locations) or ()
    ]
    for folder in folders:
        if (folder / HEADER).is_file():
            return folder
    raise SystemExit(f"compile_metal: the installed MLX has no {HEADER}")


def known_standards(scratch: Path) -> list[str]:
    """Return the `STANDARDS` that the compiler supports."""
    empty = scratch / "empty.metal"
    empty.write_text("")
    words = ("-c", empty, "-o", scratch / "empty.air")
    return [each for each in STANDARDS if tool("metal", f"-std={each}", *words).returncode == 0]


def compiled(text: Path, standard: str, into: Path) -> Compiled:
    """Compile the source code of a kernel like MLX, with the same math mode and header."""
    words = (f"-std={standard}", *MATH, "-Wall", "-I", includes(), "-include", HEADER)
    done = tool("metal", *words, "-c", text, "-o", into / f"{text.stem}.air")
    return Compiled(text.stem, done.returncode != 0, done.stderr.strip())


def translated(text: Path, folder: Path) -> list[dict[str, Any]]:
    """Return the code size, or an error, of a kernel for each architecture. `folder` contains the
    compiled kernel."""
    library, script = folder / f"{text.stem}.metallib", folder / f"{text.stem}.mtlp-json"
    match = _ENTRY.search(text.read_text())
    entry = {"compute_function": (match["name"] or match["plain"]) if match else ""}
    script.write_text(json.dumps({"pipelines": {"compute_pipelines": [entry]}}))
    linked, rows = tool("metallib", folder / f"{text.stem}.air", "-o", library), []
    for architecture in ARCHITECTURES:
        row: dict[str, Any] = {"kernel": text.stem, "architecture": architecture}
        image, done = folder / f"{text.stem}.{architecture}", linked
        if linked.returncode == 0:
            done = tool("metal-tt", "-arch", architecture, library, script, "-o", image)
        if done.returncode != 0 or not image.is_file():
            row["fault"] = (done.stderr or done.stdout).strip()[:400] or "no output"
        else:
            try:
                row |= measured(image.read_bytes())
            except (ValueError, struct.error) as error:
                row["fault"] = f"an image that this program cannot read: {error}"
        rows.append(row)
    return rows


def measured(image: bytes) -> dict[str, Any]:
    """Return the code size in bytes of a translated image, its metadata, and the resources in it.

    The image is a Mach-O file. Its section `__compute` contains another Mach-O file with the code.
    """
    inner = next((content for _, name, content in sections(image) if name == "__compute"), image)
    found = list(sections(inner))
    code = sum(len(content) for segment, name, content in found if name == "__text")
    metadata = b"".join(content for segment, _, content in found if segment == "__GPU_METADATA")
    measures = {"code_bytes": code, "metadata": metadata.hex()}
    try:
        return measures | resources(metadata)
    except (ValueError, struct.error) as error:
        return measures | {"unknown": str(error)}


def resources(metadata: bytes) -> dict[str, int]:
    """Return the number of registers and of spilled bytes per thread. Raises `ValueError` if the
    metadata has another format."""
    (root,) = struct.unpack_from("<I", metadata)
    place = _fields(metadata, root).get(REGISTERS)
    if place is None:
        raise ValueError("the root has no table")
    table = place[0] + struct.unpack_from("<I", metadata, place[0])[0]
    values = {
        field: int.from_bytes(metadata[start:end], "little")
        for field, (start, end) in _fields(metadata, table).items()
    }
    spilled = {values.get(field, 0) for field in SPILLED}
    if not 0 < values.get(REGISTERS, 0) <= MOST_REGISTERS or len(spilled) > 1:
        raise ValueError("the fields of registers and spilled bytes have other values")
    return {"registers": values[REGISTERS], "spilled_bytes": spilled.pop()}


def _fields(buffer: bytes, table: int) -> dict[int, tuple[int, int]]:
    """Return the start and the latest possible end of each field that is present in a FlatBuffer
    table.

    A FlatBuffer does not store the size of a number. Therefore, at most four bytes are read, up to
    the next field. Padding after a smaller number is zero.
    """
    (back,) = struct.unpack_from("<i", buffer, table)
    index = table - back
    index_bytes, table_bytes = struct.unpack_from("<2H", buffer, index)
    if index < 0 or table_bytes > len(buffer) - table:
        raise ValueError("the metadata is no FlatBuffer")
    offsets = struct.unpack_from(f"<{index_bytes // 2 - 2}H", buffer, index + 4)
    if any(not 4 <= offset < table_bytes for offset in offsets if offset):
        raise ValueError("a field is outside of its table")
    ends = dict(pairwise(sorted({*offsets, table_bytes})))
    return {
        field: (table + offset, table + min(ends[offset], offset + 4))
        for field, offset in enumerate(offsets)
        if offset
    }


def sections(image: bytes) -> Iterator[tuple[str, str, bytes]]:
    """Yield the segment, name, and content of each section of a 64-bit Mach-O file. Raises
    `ValueError` if the file has another format."""
    magic, *_, commands, _, _, _ = struct.unpack_from("<8I", image)
    if magic != 0xFEEDFACF:
        raise ValueError("no 64-bit Mach-O file")
    at = 32
    for _ in range(commands):
        command, size = struct.unpack_from("<2I", image, at)
        count = struct.unpack_from("<I", image, at + 64)[0] if command == 0x19 else 0
        for section in range(at + 72, at + 72 + 80 * count, 80):
            name, segment = struct.unpack_from("<16s16s", image, section)
            length, offset = struct.unpack_from("<QI", image, section + 40)
            content = image[offset : offset + length]
            yield segment.rstrip(b"\0").decode(), name.rstrip(b"\0").decode(), content
        at += size


def main(words: list[str]) -> int:
    """Compile all kernels in a folder and return the exit code: 1 if a kernel cannot be compiled, 2
    if the tools are missing."""
    parser = argparse.ArgumentParser(description="Compile Metal text by Apple's compiler.")
    parser.add_argument("folder", type=Path, help="folder of --dump-metal")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was found here")
    arguments = parser.parse_args(words)
    texts = sorted(arguments.folder.glob("*.metal"))
    version = tool("metal", "--version") if shutil.which("xcrun") else None
    if not texts or version is None or version.returncode != 0:
        reason = "there is no text" if not texts else "xcrun finds no metal"
        said = f": {version.stderr.strip()}" if version else ""
        print(f"compile_metal: {reason}{said}", file=sys.stderr)
        return 2
    print(version.stdout.splitlines()[0])
    found: dict[str, Any] = {"compiler": version.stdout.splitlines(), "standards": {}}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        scratch = Path(folder)
        standards = known_standards(scratch)
        for standard in standards:
            compile_text = partial(compiled, standard=standard, into=scratch)
            outcomes = list(pool.map(compile_text, texts))
            show(standard, outcomes)
            found["standards"][standard] = [each._asdict() for each in outcomes if each.said]
        failed = not standards or any(
            each["failed"] for some in found["standards"].values() for each in some
        )
        if missing := sorted({*STANDARDS} - {*standards}):
            print(f"not known to this compiler: {', '.join(missing)}")
        if not failed and tool("metal-tt", "--version").returncode == 0:
            rows = list(chain.from_iterable(pool.map(partial(translated, folder=scratch), texts)))
            succeeded = {row["architecture"] for row in rows if "fault" not in row}
            known = [each for each in ARCHITECTURES if each in succeeded]
            if known and (skipped := sorted({*ARCHITECTURES} - {*known})):
                print(f"not known to metal-tt: {', '.join(skipped)}")
            known = known or list(ARCHITECTURES)
            found["translated"] = [row for row in rows if row["architecture"] in known]
            print("\n".join(table(found["translated"], known)))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if failed else 0


def show(standard: str, outcomes: list[Compiled]) -> None:
    """Print how many kernels compile with a language version, and each message once."""
    taken = sum(not each.failed for each in outcomes)
    print(f"{standard}: {taken} of {len(outcomes)} texts compile")
    for each in outcomes:
        if each.said:
            print(f"  {each.name} {'FAILS' if each.failed else 'warns'}\n{each.said}")


def table(rows: list[dict[str, Any]], architectures: list[str]) -> Iterator[str]:
    """Return the translations as a Markdown table with a row for each kernel."""
    yield "registers of a thread, bytes that it spills, and bytes of code:"
    yield ""
    yield f"| kernel | {' | '.join(architectures)} |"
    yield f"| --- | {' | '.join('---' for _ in architectures)} |"
    by_kernel: dict[str, dict[str, str]] = {}
    for row in rows:
        by_kernel.setdefault(row["kernel"], {})[row["architecture"]] = _shown(row)
    for kernel, cells in by_kernel.items():
        yield f"| {kernel} | {' | '.join(cells[each] for each in architectures)} |"
    unknown = sorted({row["unknown"] for row in rows if "unknown" in row})
    yield from (f"registers and spilled bytes are unknown where {each}" for each in unknown)


def _shown(row: dict[str, Any]) -> str:
    """Return the table cell of a translation."""
    if "fault" in row:
        return f"fails: {row['fault']}".replace("\n", " ")
    return ", ".join(
        str(row.get(each, "?")) for each in ("registers", "spilled_bytes", "code_bytes")
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
