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


_TWICE = "METAL_FUNC float twice(float x) { return 2.0f * x; }\n"

FUNCTIONS = {
    "exp-of-int": Pair(Rule.FUNCTION, "1", "1.0f", "results[0] = exp(@);"),
    "the-c-library's": Pair(Rule.FUNCTION, "expf", "exp", "results[0] = @(values[0]);"),
    "atomic-max-of-float": Pair(
        Rule.FUNCTION,
        "max",
        "add",
        "atomic_fetch_@_explicit(&results[0], 1.0f, memory_order_relaxed);",
        atomic=True,
    ),
    "atomic-of-a-plain-number": Pair(
        Rule.FUNCTION,
        "uint",
        "atomic<uint>",
        """threadgroup @ sum;
        atomic_fetch_add_explicit(&sum, 1, memory_order_relaxed); results[0] = 1.0f;""",
    ),
    "atomic-half": Pair(
        Rule.ATOMIC, "half", "int", "threadgroup atomic<@> sum[4]; results[0] = 1.0f;"
    ),
    "without-a-body": Pair(
        Rule.UNDEFINED,
        ";",
        "{ return x; }",
        "results[0] = same(values[0]);",
        "float same(float x) @",
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
    "function-pointer": Pair(
        Rule.FUNCTION_POINTER,
        "float (*scale)(float) = twice;",
        "",
        "@ results[0] = twice(values[0]);",
        _TWICE,
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
    "structs-of-matrices-by-an-argument": Pair(
        Rule.UNROLLED,
        "which",
        "1",
        """Tile tiles[2];
        tiles[0].part = simdgroup_float8x8(1.0f);
        tiles[1].part = simdgroup_float8x8(2.0f);
        results[0] = first(tiles, 1);""",
        """struct Tile { simdgroup_float8x8 part; };
        METAL_FUNC float first(thread Tile* tiles, int which) {
          return which > 0 ? tiles[@].part.thread_elements()[0] : 0.0f;
        }""",
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
    "array-of-a-struct-by-a-lane": Pair(
        Rule.THREAD_ARRAY,
        "int(thread_index_in_simdgroup) % 3",
        "2",
        """Cell cell;
        UNROLL
        for (int i = 0; i < 3; ++i) cell.weight[i][1] = float(i);
        UNROLL
        for (int i = 0; i < 2; ++i) results[i] = cell.weight[@][1];""",
        _UNROLL + "struct Cell { float weight[3][2]; };\n",
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
    "function-of-mlx": Pair(
        Rule.HEADER,
        "ceildiv",
        "quotient",
        "results[0] = float(@(3, 2));",
        "METAL_FUNC int @(int a, int b) { return (a + b - 1) / b; }",
    ),
}

TYPES = {
    "matrix-of-int": Pair(
        Rule.MATRIX, "int", "half", "simdgroup_matrix<@, 8, 8> x; results[0] = 1.0f;"
    ),
    "matrix-elements": Pair(
        Rule.VECTOR,
        "const float2 x = sum.thread_elements();",
        "const float2 x{sum.thread_elements()[0], sum.thread_elements()[1]};",
        "simdgroup_float8x8 sum(1.0f); @ results[0] = x.x;",
    ),
    "float4-to-float3": Pair(
        Rule.VECTOR, "x", "x.xyz", "float4 x{}; float3 y = @; results[0] = y.x;"
    ),
    "float4-cast-to-int4": Pair(
        Rule.VECTOR,
        "int4(x)",
        "int4{int(x.x), int(x.y), int(x.z), int(x.w)}",
        "float4 x{}; int4 y = @; results[0] = float(y.x);",
    ),
    "int-in-braces-of-float": Pair(
        Rule.NARROWING,
        "i",
        "float(i)",
        "const int i = int(values[0]); const float2 x{0.0f, @}; results[0] = x.x;",
    ),
    "double": Pair(Rule.DOUBLE, "double", "float", "@ x = 1.0f; results[0] = float(x);"),
    "literal-without-suffix": Pair(Rule.DOUBLE, "2.0", "2.0f", "results[0] = values[0] * @;"),
}

STATEMENTS = {
    "uninitialized": Pair(Rule.UNINITIALIZED, "", "= 1.0f", "float x @; results[0] = x;"),
    "uninitialized-by-two-conditions": Pair(
        Rule.UNINITIALIZED,
        "",
        "= 2.0f",
        "float x @; if (values[0] > 0.0f) x = 1.0f; if (values[1] > 0.0f) results[0] = x;",
    ),
    "uninitialized-by-reference": Pair(
        Rule.UNINITIALIZED,
        "",
        "= 1.0f",
        "float x @; results[0] = same(x);",
        "METAL_FUNC float same(thread const float& x) { return x; }",
    ),
    "array-of-variable-length": Pair(
        Rule.ARRAY_LENGTH,
        "int(values[0])",
        "4",
        "const int n = @; float own[n]; own[0] = 1.0f; results[0] = own[0];",
    ),
    "no-return": Pair(
        Rule.RETURN,
        "if (x > 0.0f)",
        "",
        "results[0] = same(values[0]);",
        "METAL_FUNC float same(float x) { @ return x; }",
    ),
    "shadow": Pair(
        Rule.SHADOW,
        "float x = 2.0f;",
        "float y = x;",
        "float x = 1.0f; results[1] = x; { @ results[0] = x; }",
    ),
    "unknown-attribute": Pair(
        Rule.ATTRIBUTE, "[[unrolled]]", "", "@ for (int i = 0; i < 4; ++i) results[i] = 1.0f;"
    ),
    **{
        f"{word}-as-a-name": Pair(
            Rule.KEYWORD, word, "rows", "const int @ = 1; results[0] = float(@);"
        )
        for word in ("kernel", "vertex", "fragment", "device", "constant", "thread", "threadgroup")
    },
    "goto": Pair(Rule.CPP, "goto end;", "", "@ end: results[0] = 1.0f;"),
    **{
        statement.split("(")[0].split()[0]: Pair(Rule.CPP, statement, "", "@ results[0] = 1.0f;")
        for statement in (
            "delete &results[0];",
            "new int(1);",
            "throw 1;",
            "try { results[0] = 2.0f; } catch (...) { }",
            "dynamic_cast<int>(1);",
            "typeid(int);",
            "noexcept(1);",
            "thread_local int own = 1;",
            "register int own = 1;",
        )
    },
    "long-long": Pair(Rule.CPP, "long long", "long", "@ x = 1; results[0] = float(x);"),
    "lambda": Pair(
        Rule.CPP, "auto same = [](float x) { return x; };", "", "@ results[0] = values[0];"
    ),
    "c++17": Pair(
        Rule.LANGUAGE,
        "auto",
        "int",
        "results[0] = float(number<4>());",
        "template <@ N> METAL_FUNC int number() { return N; }",
    ),
    "c++14": Pair(
        Rule.LANGUAGE,
        "++is_on",
        "is_on = true",
        "bool is_on = false; @; results[0] = is_on ? 1.0f : 0.0f;",
    ),
    "character-in-a-comment": Pair(
        Rule.ASCII, "M\u00fcller", "Mueller", "results[0] = 1.0f;", "// @ et al. 2022"
    ),
    "the-host's-header": Pair(Rule.LANGUAGE, "#include <stddef.h>", "", "results[0] = 1.0f;", "@"),
    "no-such-syntax": Pair(Rule.LANGUAGE, "then", "", "if (values[0] > 0.0f) @ results[0] = 1.0f;"),
}
