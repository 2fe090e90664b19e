"""The judge refuses what Metal refuses, rule by rule, and takes what differs in that alone."""

import mlx.core as mx
import pytest

from nerfmac.backend.metal_text import exported
from tests.metal import judge_mlx
from tests.metal.judge import judge, judge_all
from tests.metal.judge_rules import Rule
from tests.metal.wrong_kernels import FUNCTIONS, MATRICES, MEMORY, STATEMENTS, TAKEN, TYPES, Pair

PAIRS = {**MEMORY, **FUNCTIONS, **MATRICES, **TAKEN, **TYPES, **STATEMENTS}


def text_of(body, header="", atomic=False, inputs=("values", "few"), **template):
    build = mx.fast.metal_kernel(
        name="judged",
        input_names=list(inputs),
        output_names=["results"],
        source=body,
        header=header,
        atomic_outputs=atomic,
    )
    call = {
        "inputs": [mx.zeros(4 if name == "few" else 64) for name in inputs],
        "template": list(template.items()),
        "grid": (64, 1, 1),
        "threadgroup": (64, 1, 1),
        "output_shapes": [(64,)],
        "output_dtypes": [mx.float32],
    }
    return exported(build, call).text


def filled(pair: Pair, hole: str) -> str:
    header, body = (part.replace("@", hole) for part in (pair.header, pair.body))
    return text_of(body, header + "\n", pair.atomic)


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_breaking_a_rule_is_refused_and_keeping_it_is_accepted(pair):
    complaints = judge(filled(pair, pair.wrong))
    assert pair.rule in [complaint.rule for complaint in complaints], complaints
    assert judge(filled(pair, pair.right)) == []


SIGNED = text_of(
    """const uint i = thread_position_in_grid.x + thread_index_in_simdgroup;
    if (i < threads_per_grid.x) results[i] = float(N) * values[i] + few[0];
    """,
    N=4,
)


EDITS = {  # of the signature and the last line, both written by MLX
    "unknown-parameter-attribute": (
        Rule.ATTRIBUTE,
        "[[thread_position_in_grid]]",
        "[[thread_position_in_gird]]",
    ),
    "parameter-without-attribute": (Rule.ATTRIBUTE, " [[thread_position_in_grid]]", ""),
    "signed-position": (Rule.ATTRIBUTE, "uint3 thread_position", "int3 thread_position"),
    "positions-of-two-widths": (Rule.ATTRIBUTE, "uint3 threads_per_grid", "uint threads_per_grid"),
    "argument-of-a-position": (Rule.ATTRIBUTE, "[[threads_per_grid]]", "[[threads_per_grid(0)]]"),
    "buffer-without-index": (Rule.ATTRIBUTE, "[[buffer(0)]]", "[[buffer]]"),
    "buffer-by-value": (Rule.ATTRIBUTE, "const constant float* few", "const constant float few"),
    "same-buffer-twice": (Rule.BUFFERS, "[[buffer(1)]]", "[[buffer(0)]]"),
    "buffer-past-the-last": (Rule.BUFFERS, "[[buffer(0)]]", "[[buffer(31)]]"),
    "result-of-a-kernel": (Rule.SIGNATURE, "[[kernel]] void", "[[kernel]] float"),
    "host-name-of-another": (Rule.HOST_NAME, 'host_name("custom', 'host_name("other'),
    "instance-of-another": (Rule.HOST_NAME, "decltype(custom", "decltype(other"),
    "other-arguments": (Rule.HOST_NAME, "_float<4>;", "_float<8>;"),
    "no-instance": (Rule.HOST_NAME, "template [[host_name", "// template [[host_name"),
}


@pytest.mark.parametrize(("rule", "before", "after"), EDITS.values(), ids=EDITS)
def test_a_wrong_signature_is_refused(rule, before, after):
    assert before in SIGNED
    assert judge(SIGNED) == []
    complaints = judge(SIGNED.replace(before, after, 1))
    assert rule in [complaint.rule for complaint in complaints], complaints


def test_a_text_without_a_kernel_is_refused():
    (complaint,) = judge("METAL_FUNC float one() { return 1.0f; }")
    assert complaint.rule is Rule.SIGNATURE


def test_texts_that_are_judged_together_are_told_apart():
    header = "template <typename T>\nMETAL_FUNC T twice(T x) {\n  return exp(x) + x;\n}\n"
    right = [text_of("results[0] = twice(float(N));", header, N=number) for number in range(14)]
    wrong = text_of("results[0] = float(twice(N));", header, N=20)
    judged = judge_all([*right, wrong, text_of("results[0] = 1.0f;")])
    assert [judged.pop(text) for text in right] == [[]] * 14
    assert [complaint.line for complaint in judged.pop(wrong)] == [3]
    assert list(judged.values()) == [[]]


def test_every_rule_is_broken_once():
    assert {pair.rule for pair in PAIRS.values()} | {edit[0] for edit in EDITS.values()} == {*Rule}


def test_a_complaint_names_the_rule_and_a_line_of_the_text_and_what_clang_says():
    header = "template <typename T>\nMETAL_FUNC T twice(T x) {\n  return exp(x) + simd_sum(x);\n}\n"
    complaint, *_ = judge(text_of("results[0] = float(twice(1));", header))
    assert complaint.line == 3
    text = text_of("float x = 1.0f;\nresults[0] = thrice(x);\n")
    line = next(i for i, line in enumerate(text.splitlines(), start=1) if "thrice" in line)
    (complaint,) = judge(text)
    assert str(complaint).startswith(
        f"line {line}: use of undeclared identifier 'thrice' (FUNCTION"
    )


ACCEPTED = {
    "reductions and shuffles": """
      const float x = values[thread_position_in_grid.x];
      const uint lane = thread_index_in_simdgroup;
      float sum = simd_sum(x) + simd_max(x) - simd_min(x) + simd_broadcast_first(x);
      sum += simd_prefix_exclusive_sum(x) + simd_prefix_inclusive_sum(x) + simd_broadcast(x, 3);
      sum += simd_shuffle(x, ushort(lane ^ 1)) + simd_shuffle_xor(x, 2) + simd_shuffle_up(x, 1);
      sum += simd_shuffle_down(x, 1) + simd_shuffle_and_fill_up(x, 0.0f, 1);
      sum += simd_sum(float3{x, x, x}).y + float(simd_sum(half(x)));
      const ulong votes = ulong(simd_ballot(x > 0.0f)) & ulong(simd_active_threads_mask());
      if (simd_is_first() && simd_any(x > 0.0f) && !simd_all(x > 0.0f) && votes != 0) {
        results[thread_position_in_grid.x] = sum;
      }
      """,
    "matrices": """
      threadgroup half tile[8 * 16];
      for (uint i = thread_index_in_threadgroup; i < 128; i += 64) tile[i] = half(values[i % 64]);
      threadgroup_barrier(mem_flags::mem_threadgroup);
      simdgroup_half8x8 a, b;
      simdgroup_load(a, tile, 16);
      simdgroup_load(b, tile + 8, 16, ulong2{0, 0}, true);
      simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
      simdgroup_multiply_accumulate(sum, a, b, sum);
      simdgroup_float8x8 square;
      simdgroup_multiply(square, sum, sum);
      square.thread_elements()[1] = max(square.thread_elements()[1], 0.0f);
      simdgroup_bfloat8x8 rough(bfloat(1.0f));
      simdgroup_multiply_accumulate(square, rough, rough, square);
      simdgroup_barrier(mem_flags::mem_none);
      simdgroup_store(square, results, 8);
      """,
}


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED)
def test_what_metal_has_is_accepted(body):
    assert judge(text_of(body)) == []


def test_structs_are_copied_from_any_memory():
    header = """
    template <int N>
    struct alignas(N * sizeof(float) < 16 ? N * sizeof(float) : 16) Row { float at[N]; };
    template <int N>
    METAL_FUNC Row<N> row_of(const device float* rows, uint row) {
      return reinterpret_cast<const device Row<N>*>(rows)[row];
    }
    struct Pair { int first, second; };
    METAL_FUNC Pair pair_of(int first) { return Pair{first, 2}; }
    """
    body = """
    threadgroup Pair pairs[2];
    pairs[0].first = 1;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const Pair pair = pairs[0];
    results[0] = row_of<4>(values, 1).at[2] + float(pair.first + pair_of(1).second);
    """
    assert judge(text_of(body, header)) == []


def test_the_names_that_are_taken_are_those_of_the_installed_header():
    assert {"MTL_CONST", "instantiate_kernel"} <= judge_mlx.macros(judge_mlx.header_text())
    names = judge_mlx.declared(judge_mlx.header_text())
    assert {"Limits", "ceildiv", "elem_to_loc", "complex64_t", "REDUCE_N_READS"} <= names
    assert not {"min", "x", "os_log", "log_debug", "operator"} & names
