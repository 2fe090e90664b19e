"""Kernels that break a rule of functions, matrices, types or statements."""

from __future__ import annotations

from tests.metal.judge_rules import Rule
from tests.metal.wrong_kernels import Pair

_TWICE = "METAL_FUNC float twice(float x) { return 2.0f * x; }\n"

FUNCTIONS = {
    "exp-of-int": Pair(Rule.FUNCTION, "1", "1.0f", "results[0] = exp(@);"),
    "max-of-two-types": Pair(Rule.FUNCTION, "0", "0.0f", "results[0] = max(values[0], @);"),
    "the-c-library's": Pair(Rule.FUNCTION, "expf", "exp", "results[0] = @(values[0]);"),
    "what-running-takes": Pair(
        Rule.FUNCTION,
        "runtime::lane()",
        "thread_index_in_simdgroup",
        "results[0] = float(thread_index_in_simdgroup + @);",
    ),
    "sum-of-bools": Pair(Rule.FUNCTION, "true", "1", "results[0] = float(simd_sum(@));"),
    "atomic-max-of-float": Pair(
        Rule.FUNCTION,
        "max",
        "add",
        "atomic_fetch_@_explicit(&results[0], 1.0f, memory_order_relaxed);",
        atomic=True,
    ),
    "atomic-add-to-threadgroup-float": Pair(
        Rule.FUNCTION,
        "float",
        "uint",
        """threadgroup atomic<@> sum;
        atomic_fetch_add_explicit(&sum, 1, memory_order_relaxed); results[0] = 1.0f;""",
    ),
    "atomic-of-a-plain-number": Pair(
        Rule.FUNCTION,
        "uint",
        "atomic<uint>",
        """threadgroup @ sum;
        atomic_fetch_add_explicit(&sum, 1, memory_order_relaxed); results[0] = 1.0f;""",
    ),
    "memory-order": Pair(
        Rule.FUNCTION,
        "seq_cst",
        "relaxed",
        "atomic_fetch_add_explicit(&results[0], 1.0f, memory_order_@);",
        atomic=True,
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
    "recursion": Pair(
        Rule.RECURSION,
        "power(x, n - 1)",
        "x",
        "results[0] = power(values[0], 3);",
        "METAL_FUNC float power(float x, int n) { return n > 0 ? x * @ : 1.0f; }",
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
    "matrices-of-an-inner-loop": Pair(
        Rule.UNROLLED,
        "",
        "UNROLL",
        """Sums sums;
        UNROLL
        for (int i = 0; i < 4; ++i) {
          @ for (int k = 0; k < 2; ++k) sums.part[i][k] = simdgroup_float8x8(float(i + k));
        }
        results[0] = sums.part[3][1].thread_elements()[0];""",
        _UNROLL + "struct Sums { simdgroup_float8x8 part[4][2]; };\n",
    ),
    "matrices-by-a-lane": Pair(
        Rule.UNROLLED,
        "int(thread_index_in_simdgroup) / 16",
        "1",
        """simdgroup_float8x8 sums[2];
        sums[0] = simdgroup_float8x8(1.0f);
        sums[1] = simdgroup_float8x8(2.0f);
        const int which = @;
        results[0] = sums[which].thread_elements()[0];""",
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
    "struct-of-mlx": Pair(
        Rule.HEADER, "Limits", "Ends", "results[0] = @{2.0f}.low;", "struct @ { float low; };"
    ),
    "function-of-mlx": Pair(
        Rule.HEADER,
        "ceildiv",
        "quotient",
        "results[0] = float(@(3, 2));",
        "METAL_FUNC int @(int a, int b) { return (a + b - 1) / b; }",
    ),
    "constant-of-mlx": Pair(
        Rule.HEADER,
        "REDUCE_N_READS",
        "reads",
        "results[0] = float(@);",
        "constant constexpr int @ = 4;",
    ),
}

TYPES = {
    "matrix-of-int": Pair(
        Rule.MATRIX, "int", "half", "simdgroup_matrix<@, 8, 8> x; results[0] = 1.0f;"
    ),
    "matrix-sum-of-half": Pair(
        Rule.FUNCTION,
        "half",
        "float",
        """simdgroup_float8x8 a(1.0f); simdgroup_@8x8 sum(0);
        simdgroup_multiply_accumulate(sum, a, a, sum);
        results[0] = float(sum.thread_elements()[0]);""",
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
    "float3-to-int3": Pair(
        Rule.VECTOR, "float3", "int3", "@ x{}; int3 y = x; results[0] = float(y.x);"
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
    "double-in-passing": Pair(
        Rule.DOUBLE,
        "1.0",
        "uint2{1, 1}",
        "both(); results[0] = 1.0f;",
        "METAL_FUNC auto both() { return @; }",
    ),
    "literal-without-suffix": Pair(Rule.DOUBLE, "2.0", "2.0f", "results[0] = values[0] * @;"),
}

STATEMENTS = {
    "uninitialized": Pair(Rule.UNINITIALIZED, "", "= 1.0f", "float x @; results[0] = x;"),
    "uninitialized-in-one-case": Pair(
        Rule.UNINITIALIZED,
        "",
        "else x = 2.0f;",
        "float x; if (values[0] > 0.0f) x = 1.0f; @ results[0] = x;",
    ),
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
    "new": Pair(Rule.CPP, "*new int(1)", "1", "const int x = @; results[0] = float(x);"),
    "virtual": Pair(
        Rule.CPP,
        "virtual",
        "",
        "results[0] = 1.0f;",
        "struct A { @ float one() { return 1.0f; } };",
    ),
    "throw": Pair(Rule.CPP, "throw 1;", "return;", "if (values[0] > 0.0f) @ results[0] = 1.0f;"),
    **{
        statement.split("(")[0].split()[0]: Pair(Rule.CPP, statement, "", "@ results[0] = 1.0f;")
        for statement in (
            "delete &results[0];",
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
        Rule.CPP,
        "auto same = [](float x) { return x; };",
        "",
        "@ results[0] = values[0];",
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
    "character-that-looks-like-another": Pair(
        Rule.ASCII, "\u0430", "a", "float @ = 1.0f; results[0] = @;"
    ),
    "the-host's-header": Pair(Rule.LANGUAGE, "#include <stddef.h>", "", "results[0] = 1.0f;", "@"),
    "no-such-syntax": Pair(Rule.LANGUAGE, "then", "", "if (values[0] > 0.0f) @ results[0] = 1.0f;"),
}
