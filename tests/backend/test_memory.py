"""Memory limit of a process: the memory of the machine, its container, or `ulimit`."""

import os
import subprocess
import sys

import pytest

from nerfmac.backend.memory import host_memory_bytes

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def system(root, group, limits):
    """A made-up system in `root`: the process's control group, and limits by files."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(group)
    for name, limit in limits.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{limit}\n")
    return host_memory_bytes(root)


@pytest.mark.parametrize(
    ("group", "limits", "want"),
    [
        ("0::/\n", {"memory.max": 12345678}, 12345678),
        ("0::/\n", {"memory.max": "max"}, MACHINE),
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": 23456789}, 23456789),
        ("0::/a/b\n", {"a/b/memory.max": 34567890, "a/memory.max": 45678901}, 34567890),
        ("0::/another\n", {"memory.max": 56789012}, 56789012),
        ("5:cpu:/c\n4:memory:/c\n", {"memory/c/memory.limit_in_bytes": 67890123}, 67890123),
        ("4:cpu,memory:/c\n", {"memory/memory.limit_in_bytes": 78901234}, 78901234),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": 2**63 - 4096}, MACHINE),
        ("4:cpu:/c\n", {"memory/memory.limit_in_bytes": 89012345}, MACHINE),
        ("", {}, MACHINE),
    ],
)
def test_a_container_has_the_memory_that_it_was_given(tmp_path, group, limits, want):
    assert system(tmp_path, group, limits) == want


def test_where_there_are_no_control_groups_the_machine_s_memory_counts(tmp_path):
    assert host_memory_bytes(tmp_path) == MACHINE


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to ulimit -v")
def test_what_ulimit_leaves_is_all_there_is():
    code = "from nerfmac.backend.memory import host_memory_bytes; print(host_memory_bytes())"
    kilobytes = 6_000_000
    words = ["bash", "-c", f'ulimit -v {kilobytes} && exec "$0" -c "$1"', sys.executable, code]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    # The address space that Python and the libraries have mapped is subtracted, and is not zero.
    assert 0.1 * kilobytes * 1024 < int(done.stdout) < min(MACHINE, kilobytes * 1024 - 2**20)
