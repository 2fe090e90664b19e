"""The probes for the GPU of a hosted Mac are correct kernels, and report their results."""

import mlx.core as mx
import probe_metal
import pytest
from probe_metal import PROBES, KernelProbe

from nerfmac.backend import choose_device
from nerfmac.backend.metal_text import exported
from tests.metal.judge import judge

NUMBERS = mx.arange(64, dtype=mx.float32)
KERNELS = [probe for probe in PROBES if isinstance(probe, KernelProbe)]


def launch(probe):
    kernel = mx.fast.metal_kernel(**probe.made)
    call = {**probe_metal.LAUNCH, "output_dtypes": [mx.float32], "template": []}
    return exported(kernel, {**call, "inputs": [NUMBERS]})


@pytest.mark.parametrize("probe", KERNELS, ids=lambda probe: probe.name)
def test_a_probes_kernel_is_judged_and_executed(probe, executor):
    choose_device("cpu")
    launched = launch(probe)
    assert [str(complaint) for complaint in judge(launched.text)] == []
    (out,) = executor(launched, [NUMBERS])
    assert out.sum().item() == probe.want


@pytest.mark.parametrize(
    ("found", "outcomes", "said", "has_gpu"),
    [
        (None, [], "skipped: MLX finds none here that computes", "no"),
        ("Apple M1", ["right", "right", "WRONG: 0", "right"], "- 64 atomic additions", "yes"),
        ("Apple Paravirtual device", 4 * ["WRONG: 0"], "skipped: MLX finds none", "no"),
    ],
)
def test_later_steps_hear_whether_there_is_a_gpu(
    found, outcomes, said, has_gpu, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(probe_metal, "gpu", lambda: found)
    monkeypatch.setattr(probe_metal, "outcome", lambda probe: outcomes[PROBES.index(probe)])
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    probe_metal.main()
    assert said in capsys.readouterr().out
    assert (tmp_path / "output").read_text() == f"gpu={has_gpu}\n"
