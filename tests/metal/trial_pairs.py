"""Wrong kernels and races that the executor must detect, each with an almost equal correct one."""

from __future__ import annotations

from tests.metal.trials import ADD, HELD, PLAIN, THREADGROUP, Pair, Trial

PAIRS = {
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
    "race of an atomic and a plain write": Pair(
        Trial(ADD + f"if (i == 9) {PLAIN}[0] = 1;", size=1, zeroed=True, atomic=True),
        r"race: out\[0\] is written by thread \(9, 0, 0\) .* was changed atomically by several "
        r"lanes of simdgroup 0 of threadgroup \(0, 0, 0\)",
        Trial(ADD, size=1, zeroed=True, atomic=True),
    ),
    "unwritten output": Pair(
        Trial("out[i] = out[i] + in[i];"),
        r"unwritten memory read: out\[0\] is read by thread \(0, 0, 0\)",
        Trial("out[i] = out[i] + in[i];", zeroed=True),
    ),
    "index beyond an input's end": Pair(
        Trial("out[i] = in[i + 1];"),
        r"out of bounds: in\[64\] is read by thread \(63, 0, 0\) .*; in has 64 elements",
        Trial("out[i] = in[min(i + 1, 63u)];"),
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
    "signed overflow": Pair(
        Trial("out[i] = int(i) * 0x7000000;"),
        r"signed integer overflow: 19 \* 117440512.*while thread \(19, 0, 0\)",
        Trial("out[i] = uint(i) * 0x7000000;"),
    ),
}  # fmt: skip
