"""MLX's messages of GPU failures are recognized, and work continues after macOS has ended it."""

from pathlib import Path

import mlx.core as mx
import pytest

from nerfmac.backend import RETRIES, apple, device, in_words, is_relaxed, resumed, watchdog
from nerfmac.rendering.renderer import SMALLEST_TILE, Tiles

FAILED = "[METAL] Command buffer execution failed: "
NO_MEMORY = (
    "[malloc] Unable to allocate 268435456 bytes.",
    "[metal::malloc] Attempting to allocate 30601641984 bytes which is greater than the maximum "
    "allowed buffer size of 30150672384 bytes.",
    "[metal::malloc] Resource limit (499000) exceeded.",
    FAILED + "Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory).",
    "cudaMallocAsync(&data, size, stream) failed: out of memory.",
    "cuLaunchKernel(kernel, ...) failed: out of memory.",
)
ENDED = (
    FAILED
    + "Impacting Interactivity (0000000e:kIOGPUCommandBufferCallbackErrorImpactingInteractivity).",
    FAILED + "Caused GPU Timeout Error (00000002:kIOGPUCommandBufferCallbackErrorTimeout).",
    FAILED + "Caused GPU Hang Error (00000003:kIOGPUCommandBufferCallbackErrorHang).",
    FAILED + "Ignored (for causing prior/excessive GPU errors) "
    "(00000004:kIOGPUCommandBufferCallbackErrorSubmissionsIgnored).",
    "cudaStreamSynchronize(stream) failed: the launch timed out and was terminated.",
)
DISCARDED = (
    FAILED + "Discarded (victim of GPU error/recovery) "
    "(00000005:kIOGPUCommandBufferCallbackErrorInnocentVictim)."
)
OTHERS = (
    "[metal_kernel] Unable to build metal library from source",
    FAILED + "Caused GPU Address Fault Error (0000000b:kIOGPUCommandBufferCallbackErrorPageFault).",
    "cudaGraphLaunch(graph, stream) failed: an illegal memory access was encountered.",
    "[metal::Device] Unable to load kernel nerfmac_adam",
)
ON_METAL = [text for text in (*ENDED, DISCARDED) if "[METAL]" in text]


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    monkeypatch.setattr(watchdog, "_is_relaxed", False)
    waited = []
    monkeypatch.setattr(watchdog.time, "sleep", waited.append)
    return waited


def failing(text, *failures):
    """Items 0 to 5 from `first` on; the attempts raise before the items `failures`, in order."""
    left = list(failures)

    def begin(first):
        for item in range(first, 6):
            if left and item == left[0]:
                left.pop(0)
                raise RuntimeError(text)
            yield item

    return begin


@pytest.mark.parametrize("text", ON_METAL)
def test_after_each_text_of_macos_the_remaining_items_follow(text, pauses, caplog):
    assert len(ON_METAL) == 5
    saved = []
    items = list(resumed(failing(text, 0, 2, 2, 2, 5), on_failure=lambda: saved.append(len(saved))))
    assert items == list(range(6))
    assert saved == list(range(5))
    assert pauses == [5.0, 5.0, 10.0, 20.0, 5.0]
    assert is_relaxed()
    messages = [record.getMessage() for record in caplog.records]
    assert all(text in message for message in messages)
    numbers = [message.partition("Attempt ")[2][:6] for message in messages]
    assert numbers == ["1 of 3", "1 of 3", "2 of 3", "3 of 3", "1 of 3"]


def test_a_fourth_failure_in_a_row_is_raised(pauses):
    got = []
    with pytest.raises(RuntimeError, match="Impacting"):
        got.extend(resumed(failing(ON_METAL[0], 2, 2, 2, 2)))
    assert len(pauses) == RETRIES == 3


@pytest.mark.parametrize("text", [*NO_MEMORY, *OTHERS, ENDED[-1]])
def test_other_errors_are_raised_at_once(text, pauses):
    saved = []
    with pytest.raises(RuntimeError) as raised:
        list(resumed(failing(text, 2), on_failure=lambda: saved.append(1)))
    assert str(raised.value) == text
    assert not saved
    assert not pauses
    assert not is_relaxed()
    assert (in_words(RuntimeError(text)) is None) == (text in OTHERS)


def test_launches_are_shorter_afterwards(monkeypatch):
    with device.pretended("metal", 13):
        before = apple.additions_per_launch(floats=True), Tiles()
        features = apple.features_per_launch()
        monkeypatch.setattr(watchdog, "_is_relaxed", True)
        after = apple.additions_per_launch(floats=True), Tiles()
        assert apple.features_per_launch() == pytest.approx(features / 4)
    assert apple.features_per_launch() == float("inf")
    assert after[0] == pytest.approx(before[0] / 4)
    assert after[1].rays == SMALLEST_TILE < before[1].rays
    for each in (before[1], after[1]):
        each.rays = 2**16
        each._learn(0.03)
    assert (before[1].rays, after[1].rays) == (2**16, 2**15)


METALS = (b"[metal::malloc] Attempting to allocate ", b"[metal::malloc] Resource limit (")
LAUNCHES = (b"[METAL] Command buffer execution failed: {}.",)


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param((*METALS, *LAUNCHES), marks=pytest.mark.metal),
        pytest.param((b"out of memory", b"{} failed: {}."), marks=pytest.mark.cuda),
    ],
)
def test_the_installed_mlx_still_says_so(parts):
    (library,) = Path(mx.__file__).with_name("lib").glob("libmlx.*")
    content = library.read_bytes()
    assert all(part in content for part in (b"[malloc] Unable to allocate ", *parts))
