"""The judge refuses what Metal refuses, rule by rule, and takes what differs in that alone."""

import mlx.core as mx
import pytest

from nerfmac.backend.metal_text import exported
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
    "same-buffer-twice": (Rule.BUFFERS, "[[buffer(1)]]", "[[buffer(0)]]"),
    "buffer-past-the-last": (Rule.BUFFERS, "[[buffer(0)]]", "[[buffer(31)]]"),
    "result-of-a-kernel": (Rule.SIGNATURE, "[[kernel]] void", "[[kernel]] float"),
    "host-name-of-another": (Rule.HOST_NAME, 'host_name("custom', 'host_name("other'),
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
