"""Pairs of kernels for each rule: one that breaks it, and one that differs in that alone.

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

MEMORY = {
    "device-to-threadgroup": Pair(
        Rule.ADDRESS_SPACE, "threadgroup", "device const", "results[0] = read(values);", _READ
    ),
    "write-to-input": Pair(Rule.READ_ONLY, "values", "results", "@[0] = 1.0f;"),
    "pointer": Pair(
        Rule.UNQUALIFIED, "", "thread", "float own = 1.0f; results[0] = read(&own);", _READ
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
}


_TWICE = "METAL_FUNC float twice(float x) { return 2.0f * x; }\n"

FUNCTIONS = {
    "atomic-half": Pair(
        Rule.ATOMIC, "half", "int", "threadgroup atomic<@> sum[4]; results[0] = 1.0f;"
    ),
    "mutual-recursion": Pair(
        Rule.RECURSION,
        "even(n - 1)",
        "n == 1",
        "results[0] = even(3) ? 1.0f : 0.0f;",
        """METAL_FUNC bool even(int n);
        METAL_FUNC bool odd(int n) { return n != 0 && @; }
        METAL_FUNC bool even(int n) { return n == 0 || odd(n - 1); }""",
    ),
    "function-pointer-by-auto": Pair(
        Rule.FUNCTION_POINTER,
        "auto scale = twice; results[0] = scale",
        "results[0] = twice",
        "@(values[0]);",
        _TWICE,
    ),
}

_UNROLL = '#define UNROLL _Pragma("clang loop unroll(full)")\n'

MATRICES = {
    "matrices-of-a-loop": Pair(
        Rule.UNROLLED,
        "",
        "UNROLL",
        """simdgroup_float8x8 sums[4];
        @ for (int i = 0; i < 4; ++i) sums[i] = simdgroup_float8x8(1.0f);
        results[0] = sums[3].thread_elements()[0];""",
        _UNROLL,
    ),
    "array-of-an-inner-loop": Pair(
        Rule.THREAD_ARRAY,
        "",
        "UNROLL",
        """float sums[3] = {0.0f, 0.0f, 0.0f};
        UNROLL
        for (int i = 0; i < 4; ++i) {
          @ for (int axis = 0; axis < 3; ++axis) sums[axis] += float(i * axis);
        }
        results[0] = sums[2];""",
        _UNROLL,
    ),
    "elements-of-a-loop": Pair(
        Rule.UNROLLED,
        "",
        "UNROLL",
        """simdgroup_float8x8 sum(1.0f);
        thread auto& two = sum.thread_elements();
        @ for (int e = 0; e < 2; ++e) two[e] = max(two[e], 0.0f);
        results[0] = two[0];""",
        _UNROLL,
    ),
}

TAKEN = {
    "macro-of-mlx": Pair(
        Rule.HEADER, "MTL_CONST", "rows", "const int @ = 1; results[0] = float(@);"
    ),
}

TYPES = {
    "matrix-of-int": Pair(
        Rule.MATRIX, "int", "half", "simdgroup_matrix<@, 8, 8> x; results[0] = 1.0f;"
    ),
    "literal-without-suffix": Pair(Rule.DOUBLE, "2.0", "2.0f", "results[0] = values[0] * @;"),
}

STATEMENTS = {
    "uninitialized": Pair(Rule.UNINITIALIZED, "", "= 1.0f", "float x @; results[0] = x;"),
    **{
        f"{word}-as-a-name": Pair(
            Rule.KEYWORD, word, "rows", "const int @ = 1; results[0] = float(@);"
        )
        for word in ("kernel", "device")
    },
    **{
        statement.split("(")[0].split()[0]: Pair(Rule.CPP, statement, "", "@ results[0] = 1.0f;")
        for statement in (
            "new int(1);",
            "throw 1;",
            "dynamic_cast<int>(1);",
        )
    },
}
