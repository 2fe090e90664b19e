"""Wrong kernels and races that the executor must detect, each with an almost equal correct one."""

from __future__ import annotations

from tests.metal.trials import ADD, COUNT, HELD, PLAIN, SIMDGROUP, THREADGROUP, Pair, Trial

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


PAIRS = {
    **RACES,
    "unwritten output": Pair(
        Trial("out[i] = out[i] + in[i];"),
        r"unwritten memory read: out\[0\] is read by thread \(0, 0, 0\)",
        Trial("out[i] = out[i] + in[i];", zeroed=True),
    ),
    "unwritten threadgroup memory": Pair(
        Trial(HELD + "if (i < 63) held[i] = in[i];\n" + THREADGROUP + "out[i] = held[i];"),
        r"unwritten memory read: held\[63\] is read by thread \(63, 0, 0\)",
        Trial(HELD + "held[i] = in[i];\n" + THREADGROUP + "out[i] = held[i];"),
    ),
    "index beyond an input's end": Pair(
        Trial("out[i] = in[i + 1];"),
        r"out of bounds: in\[64\] is read by thread \(63, 0, 0\) .*; in has 64 elements",
        Trial("out[i] = in[min(i + 1, 63u)];"),
    ),
    "index before an output's begin": Pair(
        Trial("out[int(i) - 2] = 1;", zeroed=True),
        r"out of bounds: out\[-2\] is written by thread \(0, 0, 0\)",
        Trial("if (i > 1) out[int(i) - 2] = 1;", zeroed=True),
    ),
    "vector that reaches beyond the end": Pair(
        Trial("out[i] = reinterpret_cast<const device float4*>(in)[15].x;", COUNT[:62]),
        r"out of bounds: in\[60\] is read by thread \(0, 0, 0\)",
        Trial("out[i] = reinterpret_cast<const device float4*>(in)[15].x;"),
    ),
    "element of no buffer": Pair(
        Trial("out[i] = *(in + 0x4000000000);"),
        r"out of bounds: address \w+, in no buffer and not in the thread's own memory, is read",
        Trial("out[i] = *(in + 0x4);"),
    ),
    "index beyond a threadgroup array": Pair(
        Trial(HELD + "threadgroup float* all = held;\nall[i + 1] = 1;\nout[i] = 1;"),
        r"out of bounds: held\[64\] is written by thread \(63, 0, 0\)",
        Trial(HELD + "threadgroup float* all = held;\nall[i] = 1;\nout[i] = 1;"),
    ),
    "pointer beyond a private array": Pair(
        Trial(
            "float own[4] = {}; thread float* all = own; out[i] = all[i + 1];",
            grid=4, group=4, size=4,
        ),
        r"stack-buffer-overflow on address .*while thread \(3, 0, 0\)",
        Trial(
            "float own[4] = {}; thread float* all = own; out[i] = all[i];",
            grid=4, group=4, size=4,
        ),
    ),
    "misaligned vector": Pair(
        Trial("out[i] = reinterpret_cast<const device float4*>(in + 1)->x;"),
        r"misaligned: in\[1\] is read by thread \(0, 0, 0\) .* in 16 bytes at once",
        Trial("out[i] = reinterpret_cast<const device float4*>(in + 4)->x;"),
    ),
    "write to an input": Pair(
        Trial("const_cast<device float*>(in)[i] = 1; out[i] = 1;"),
        r"input written: in\[0\] is written by thread \(0, 0, 0\)",
        Trial("out[i] = in[i];"),
    ),
    "barrier after some have returned": Pair(
        Trial("out[i] = 1;\nif (i > 40) return;\n" + THREADGROUP),
        r"barrier not reached by all: returned: thread \(41, 0, 0\) .* and 22 more; waiting in "
        r"threadgroup_barrier of line \d+: thread \(0, 0, 0\) .* and 40 more",
        Trial("out[i] = 1;\n" + THREADGROUP + "if (i > 40) return;\n"),
    ),
    "simdgroup's barrier after some have returned": Pair(
        Trial("out[i] = 1;\nif (i == 3) return;\n" + SIMDGROUP),
        r"barrier not reached by all: returned: thread \(3, 0, 0\)",
        Trial("out[i] = 1;\nif (i > 31) return;\n" + SIMDGROUP),
    ),
    "lanes in two collectives": Pair(
        Trial("if (i % 2) out[i] = simd_sum(1.0f);\nelse out[i] = simd_max(1.0f);"),
        r"divergent simdgroup: waiting in simd_max of line \d+: thread \(0, 0, 0\) .* and 15 more; "
        r"waiting in simd_sum of line \d+: thread \(1, 0, 0\) .* and 15 more",
        Trial("if (i > 31) out[i] = simd_sum(1.0f);\nelse out[i] = simd_max(1.0f);"),
    ),
    "matrix of an incomplete simdgroup": Pair(
        Trial(
            "simdgroup_float8x8 a(1.0f), b;\nsimdgroup_multiply(b, a, a);\nout[i] = 1;",
            grid=31, group=31, size=31,
        ),
        r"incomplete simdgroup: waiting in simdgroup_multiply of line \d+: .* and 30 more",
        Trial("simdgroup_float8x8 a(1.0f), b;\nsimdgroup_multiply(b, a, a);\nout[i] = 1;"),
    ),
    "signed overflow": Pair(
        Trial("out[i] = int(i) * 0x7000000;"),
        r"signed integer overflow: 19 \* 117440512.*while thread \(19, 0, 0\)",
        Trial("out[i] = uint(i) * 0x7000000;"),
    ),
    "division by zero": Pair(
        Trial("out[i] = 5 / int(i);"), r"division by zero", Trial("out[i] = 5 / (int(i) + 1);")
    ),
    "number too large for an integer": Pair(
        Trial("out[i] = int(in[i] * 1e9f);"),
        r"3e\+09 is outside the range of representable values of type 'int'",
        Trial("out[i] = int(in[i] * 1e7f);"),
    ),
    "too much threadgroup memory": Pair(
        Trial(HELD + "threadgroup float more[8192];\nheld[i] = 1;\nmore[i] = out[i] = 1;"),
        r"threadgroup memory: more makes it 33024 bytes",
        Trial(HELD + "threadgroup float more[8128];\nheld[i] = 1;\nmore[i] = out[i] = 1;"),
    ),
}  # fmt: skip
