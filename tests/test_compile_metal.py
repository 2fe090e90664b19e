"""Compilation of each source with each version of Apple's compiler, and its error counts."""

import json
import struct

import compile_metal
import pytest

TEXT = 'template [[host_name("custom_kernel_one")]] [[kernel]] decltype(one) one;\n'


def mach_o(*sections):
    """A 64-bit Mach-O file with the `sections` (segment, name, content) in one segment."""
    start = 32 + 72 + 80 * len(sections)
    contents = b"".join(content for *_, content in sections)
    head = struct.pack("<8I", 0xFEEDFACF, 0, 0, 1, 1, 0, 0, 0)
    command = struct.pack("<2I16s", 0x19, 72 + 80 * len(sections), b"__TEXT") + bytes(40)
    command += struct.pack("<2I", len(sections), 0)
    for segment, name, content in sections:
        described = struct.pack("<16s16s", name.encode(), segment.encode())
        command += (described + struct.pack("<2QI", 0, len(content), start)).ljust(80, b"\0")[:80]
        start += len(content)
    return head + command + contents


def metadata(numbers, table_at=60):
    """A FlatBuffer as Apple's: the root's field 0 is a table with `numbers` (format, value)."""
    offsets, content = {}, b""
    for field, (form, value) in numbers.items():
        number = struct.pack("<" + form, value)
        content += bytes(-(4 + len(content)) % len(number))
        offsets[field] = 4 + len(content)
        content += number
    index = struct.pack("<2H", 4 + 2 * 42, 4 + len(content))
    index += struct.pack("<42H", *(offsets.get(field, 0) for field in range(42)))
    root = struct.pack("<I4x3Hxx2i", 16, 6, 8, 4, 8, table_at + len(index) - 20)
    root = root.ljust(table_at, b"\xaa")  # the kernel's name and signature
    return root + index + struct.pack("<i", len(index)) + content


CLEAN = {3: ("I", 7), 0: ("I", 76), 31: ("H", 2)}
SPILLS = CLEAN | {0: ("B", 96), 14: ("I", 1280), 41: ("I", 1280)}
SPILLED = metadata(SPILLS)


@pytest.mark.parametrize("table_at", [60, 92])
@pytest.mark.parametrize(("numbers", "want"), [(CLEAN, (76, 0)), (SPILLS, (96, 1280))])
def test_registers_and_spilled_bytes_are_read_by_the_fields_numbers(numbers, want, table_at):
    found = compile_metal.resources(metadata(numbers, table_at))
    assert (found["registers"], found["spilled_bytes"]) == want


@pytest.mark.parametrize(
    "given",
    [
        b"",
        SPILLED[:12] + bytes(2) + SPILLED[14:],  # the root has no table
        SPILLED[:74] + b"\2" + SPILLED[75:],  # a field before its table
        SPILLED[:16] + struct.pack("<i", 22) + SPILLED[20:] + struct.pack("<3H", 6, 8, 4),
        metadata({3: ("I", 7)}),
        metadata(CLEAN | {0: ("I", 700)}),
    ],
)
def test_metadata_of_another_format_have_no_registers(given):
    with pytest.raises((ValueError, struct.error)):
        compile_metal.resources(given)


@pytest.fixture
def apple(monkeypatch, tmp_path):
    """Simulate Xcode: `says` returns the exit code and output of a tool for its arguments."""

    def make(says):
        def tool(name, *words):
            code, said = says(name, [str(word) for word in words])
            if code == 0 and "-o" in words:
                code_of = ("__TEXT", "__text", bytes(640))
                inner = mach_o(code_of, ("__GPU_METADATA", "__data", SPILLED))
                words[words.index("-o") + 1].write_bytes(mach_o(("__TEXT", "__compute", inner)))
            out = "Apple metal version 1" if words == ("--version",) else ""
            return compile_metal.subprocess.CompletedProcess(words, code, out, said)

        monkeypatch.setattr(compile_metal, "tool", tool)
        monkeypatch.setattr(compile_metal.shutil, "which", lambda name: name)
        (tmp_path / "texts").mkdir()
        for name in ("one", "two"):
            (tmp_path / "texts" / f"{name}.metal").write_text(TEXT)
        found = tmp_path / "found.json"
        code = compile_metal.main([str(tmp_path / "texts"), "--json", str(found)])
        return code, json.loads(found.read_text()) if found.exists() else None

    return make


def test_each_text_is_compiled_after_mlx_s_header_in_each_version(apple, capsys):
    asked = []
    code, found = apple(lambda name, words: asked.append((name, words)) or (0, ""))
    assert code == 0
    compiled = [words for name, words in asked if name == "metal" and "-include" in words]
    assert len(compiled) == 2 * len(compile_metal.STANDARDS)
    for words in compiled:
        assert compile_metal.HEADER in words
        assert "-fmetal-math-mode=safe" in words
        assert "-fmetal-math-fp32-functions=fast" in words
        assert "-fno-fast-math" not in words
    assert {words[0] for words in compiled} == {f"-std={each}" for each in compile_metal.STANDARDS}
    assert [row["code_bytes"] for row in found["translated"]] == 10 * [640]
    assert {row["spilled_bytes"] for row in found["translated"]} == {1280}
    assert found["translated"][0]["metadata"] == SPILLED.hex()
    shown = capsys.readouterr().out
    assert "metal4.0: 2 of 2 texts compile" in shown
    assert "| one |" + 5 * " 96, 1280, 640 |" in shown
    assert "applegpu_g17g" in shown


def test_a_warning_is_shown_and_an_error_makes_it_fail(apple, capsys):
    def says(name, words):
        if "-include" in words and words[-3].endswith("two.metal"):
            return (1, "error: no") if "-std=metal3.2" in words else (0, "warning: hm")
        return 0, ""

    code, found = apple(says)
    assert code == 1
    shown = capsys.readouterr().out
    assert "two FAILS\nerror: no" in shown
    assert "two warns\nwarning: hm" in shown
    assert "metal3.2: 1 of 2 texts compile" in shown
    assert "translated" not in found


def test_a_missing_compiler_is_an_error(apple, capsys):
    assert apple(lambda name, words: (1, "missing Metal Toolchain"))[0] == 2
    assert "xcrun finds no metal: missing Metal Toolchain" in capsys.readouterr().err


def test_a_version_that_is_not_known_and_a_translation_that_fails_are_told(apple, capsys):
    def says(name, words):
        if name == "metal-tt" and "-arch" in words:
            return 1, "no\nway"
        return "-std=metal4.0" in words, ""

    code, found = apple(says)
    shown = capsys.readouterr().out
    assert code == 0
    assert "not known to this compiler: metal4.0" in shown
    assert set(found["standards"]) == {"metal3.1", "metal3.2"}
    assert {row["fault"] for row in found["translated"]} == {"no\nway"}
    assert "| one | fails: no way |" in shown
