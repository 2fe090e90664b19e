"""MLX's own texts of what ends a computation are known; others are not taken for them."""

from pathlib import Path

import mlx.core as mx
import pytest

from nerfmac.backend.faults import in_words, is_out_of_memory

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


@pytest.mark.parametrize("text", NO_MEMORY)
def test_no_memory_is_told_as_such(text):
    error = RuntimeError(text)
    assert is_out_of_memory(error)
    assert text in (in_words(error) or "")


@pytest.mark.parametrize("text", ENDED)
def test_work_that_the_system_ended_is_told_as_such(text):
    error = RuntimeError(text)
    assert not is_out_of_memory(error)
    assert text in (in_words(error) or "")


def test_work_that_fell_with_another_program_s_is_told_as_such():
    words = in_words(RuntimeError(DISCARDED)) or ""
    assert DISCARDED in words
    assert "another program" in words
    assert not is_out_of_memory(RuntimeError(DISCARDED))


@pytest.mark.parametrize("text", OTHERS)
def test_another_error_is_neither(text):
    assert in_words(RuntimeError(text)) is None


THREADS = (
    "[metal_kernel] Thread group size (256) is greater than  the maximum allowed threads per "
    "threadgroup (192)."
)


def test_a_threadgroup_that_is_too_large_is_explained():
    words = in_words(ValueError(THREADS)) or ""
    assert THREADS in words
    assert "`group`" in words
    assert in_words(ValueError("could not convert string to float")) is None
    assert in_words(ValueError(NO_MEMORY[0])) is None


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
