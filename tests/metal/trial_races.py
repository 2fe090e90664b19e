"""Kernels with races that the executor must detect, each with a kernel without a race."""

from __future__ import annotations

from tests.metal.trials import ADD, HELD, PLAIN, SIMDGROUP, THREADGROUP, Pair, Trial

RACES = {
    "race between threadgroups": Pair(
        Trial("out[i % 32] = 1;", size=32, group=32),
        r"race: out\[0\] is written by thread \(32, 0, 0\) of threadgroup \(1, 0, 0\) and was "
        r"written by thread \(0, 0, 0\) of threadgroup \(0, 0, 0\), with no barrier between",
        Trial("out[i] = 1;", group=32),
    ),
    "race within a threadgroup": Pair(
        Trial(HELD + "held[i] = in[i]; out[i] = held[i / 2];"),
        r"race: held\[0\] is read by thread \(1, 0, 0\) .* was written by thread \(0, 0, 0\)",
        Trial(HELD + "held[i] = in[i];" + THREADGROUP + "out[i] = held[i / 2];"),
    ),
    "race between simdgroups with a barrier for each": Pair(
        Trial(HELD + "held[i] = in[i];" + SIMDGROUP + "out[i] = held[i / 2];"),
        r"race: held\[16\] is read by thread \(32, 0, 0\) .* was written by thread \(16, 0, 0\)",
        Trial(HELD + "held[i] = in[i];" + SIMDGROUP + "out[i] = held[i / 32 * 32 + i % 32 / 2];"),
    ),
    "race within a simdgroup that only exchanges": Pair(
        Trial(
            HELD + "held[i] = in[i];\nout[i] = simd_sum(in[i]);\nout[i] = held[31 - i];",
            size=32,
            grid=32,
            group=32,
        ),
        r"race: held\[31\] is read by thread \(0, 0, 0\) .* was written by thread \(31, 0, 0\)",
        Trial(
            HELD + "held[i] = in[i];\n" + SIMDGROUP + "out[i] = held[31 - i];",
            size=32,
            grid=32,
            group=32,
        ),
    ),
    "race in device memory, with a barrier for threadgroup memory": Pair(
        Trial("out[i] = 1;" + THREADGROUP + "if (i < 32) out[i] = out[i + 32];"),
        r"race: out\[32\] is read by thread \(0, 0, 0\)",
        Trial(
            "out[i] = 1; threadgroup_barrier(mem_flags::mem_device);"
            "if (i < 32) out[i] = out[i + 32];"
        ),
    ),
    "race of an atomic and a plain write": Pair(
        Trial(ADD + f"if (i == 9) {PLAIN}[0] = 1;", size=1, zeroed=True, atomic=True),
        r"race: out\[0\] is written by thread \(9, 0, 0\) .* was changed atomically by several "
        r"lanes of simdgroup 0 of threadgroup \(0, 0, 0\)",
        Trial(ADD, size=1, zeroed=True, atomic=True),
    ),
    "race of a write with what several threadgroups read": Pair(
        Trial(
            "if (i % 32 == 8) {\nconst float held = out[0];\nif (i == 40) out[0] = held;\n}",
            group=32,
            zeroed=True,
        ),
        r"race: out\[0\] is written by thread \(40, 0, 0\) .* was read by several threadgroups",
        Trial("if (i == 40) {\nconst float held = out[0];\nout[0] = held;\n}", zeroed=True),
    ),
    "race of a write with what several lanes read": Pair(
        Trial(
            "if (i > 10) {\nconst float held = out[0];\nif (i == 20) out[0] = held;\n}",
            zeroed=True,
            grid=32,
            group=32,
        ),
        r"race: out\[0\] is written by thread \(20, 0, 0\) .* was read by several lanes of ",
        Trial(
            "const float held = out[0]; simdgroup_barrier(mem_flags::mem_device);\n"
            "if (i == 20) out[0] = held;",
            zeroed=True,
            grid=32,
            group=32,
        ),
    ),
}
