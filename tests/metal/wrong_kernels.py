"""Kernels that break a memory rule: the common parts of the pairs in judge_wrong_code.py.

The body and the header are passed to MLX, as for nerfmac's own kernels. The kernel has `values` in
device memory, `few` in constant memory, and `results` to write to, all of them floats.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.metal.judge_rules import Rule


class Pair(NamedTuple):
    """Two kernels: `@` in the header or the body is replaced with the wrong or the right code."""

    rule: Rule
    wrong: str
    right: str
    body: str
    header: str = ""
    atomic: bool = False


_READ = "METAL_FUNC float read(@ float* from) { return from[0]; }\n"
_ROW = "struct Row { float at[4]; };\n"

MEMORY = {
    "device-to-threadgroup": Pair(
        Rule.ADDRESS_SPACE, "threadgroup", "device const", "results[0] = read(values);", _READ
    ),
    "write-to-input": Pair(Rule.READ_ONLY, "values", "results", "@[0] = 1.0f;"),
    "write-to-constant": Pair(
        Rule.READ_ONLY,
        "at[0] = 1.0f;",
        "",
        "results[0] = read(few);",
        "METAL_FUNC float read(constant float* at) { @ return at[0]; }",
    ),
    "pointer": Pair(
        Rule.UNQUALIFIED, "", "thread", "float own = 1.0f; results[0] = read(&own);", _READ
    ),
    "reference-to-array": Pair(
        Rule.UNQUALIFIED,
        "",
        "thread",
        "float own[2] = {1.0f, 2.0f}; results[0] = sum(own);",
        "METAL_FUNC float sum(@ float (&x)[2]) { return x[0] + x[1]; }",
    ),
    "pointer-in-cast": Pair(
        Rule.UNQUALIFIED,
        "float*",
        "thread float*",
        "uint own = 1; results[0] = *reinterpret_cast<@>(&own);",
    ),
    "struct-to-device": Pair(
        Rule.STRUCT,
        "*at = row;",
        "for (int i = 0; i < 4; ++i) at->at[i] = row.at[i];",
        "device Row* at = reinterpret_cast<device Row*>(results); Row row = {}; @",
        _ROW,
    ),
    "program-scope-constexpr": Pair(
        Rule.PROGRAM_SCOPE, "", "constant", "results[0] = one;", "@ constexpr float one = 1.0f;"
    ),
    "static-local": Pair(
        Rule.PROGRAM_SCOPE, "static", "", "@ int count = 0; results[0] = float(++count);"
    ),
    "threadgroup-in-function": Pair(
        Rule.THREADGROUP,
        "threadgroup",
        "",
        "results[0] = sum(values[0]);",
        "METAL_FUNC float sum(float x) { @ float tile[4]; tile[0] = x; return tile[0]; }",
    ),
    "threadgroup-in-block": Pair(
        Rule.THREADGROUP,
        "{ threadgroup float tile[4]; tile[0] = 1.0f; }",
        "threadgroup float tile[4]; { tile[0] = 1.0f; }",
        "@ results[0] = 1.0f;",
    ),
    "threadgroup-with-value": Pair(
        Rule.THREADGROUP, "= 1.0f;", "; sum = 1.0f;", "threadgroup float sum @ results[0] = sum;"
    ),
    "threadgroup-static": Pair(
        Rule.THREADGROUP,
        "static",
        "",
        "@ threadgroup float tile[4]; tile[0] = 1.0f; results[0] = tile[0];",
    ),
    "threadgroup-too-large": Pair(
        Rule.THREADGROUP_SIZE,
        "8193",
        "8192",
        "threadgroup float tile[@]; tile[0] = 1.0f; results[0] = tile[0];",
    ),
    # A lane's 8 bytes of each of 512 matrices are 4 KB; one is made and copied.
    "too-many-matrices": Pair(
        Rule.REGISTERS,
        "512",
        "511",
        """simdgroup_float8x8 sums[@];
        for (int i = 0; i < 9; ++i) sums[3] = simdgroup_float8x8(1.0f);
        results[0] = sums[3].thread_elements()[0];""",
    ),
    "too-many-matrices-in-all": Pair(
        Rule.REGISTERS,
        "1000",
        "100",
        "Sums<400> sums; fill(sums.of[0]); results[0] = sums.of[0].thread_elements()[0];",
        """template <int N> struct Sums { simdgroup_float8x8 of[N]; };
        METAL_FUNC void fill(thread simdgroup_float8x8& to) {
          simdgroup_half8x8 halves[2][@ / 2];
          to = simdgroup_float8x8(1.0f);
        }""",
    ),
}
