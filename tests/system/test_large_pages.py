"""Memory in large pages: asked for where there are such, and given back."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from recollect.system import large_pages as module
from recollect.system.large_pages import large_pages

SIZE = 64 << 20
# In a process of its own: what is asked of a heap stays. Prints the bytes of the heap that are to be in large pages before,
# within and after, whether a block in between lies there, and how much memory is resident within and after.
_PROGRAM = """
import ctypes, re
from recollect.system.large_pages import large_pages
from tests.system.test_large_pages import SIZE

def advised():
    parts = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", open("/proc/self/smaps").read(), flags=re.M)
    spans = [[int(end, 16) for end in part.split()[0].split("-")] for part in parts if "[heap]" in part and re.search("VmFlags:.* hg", part)]
    return spans

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
print(sum(end - start for start, end in advised()))
with large_pages(SIZE):
    print(sum(end - start for start, end in advised()))
    blocks = [libc.malloc(1 << 20) for _ in range(48)]
    for block in blocks:
        ctypes.memset(block, 1, 1 << 20)
    inside = [any(start <= block < end for start, end in advised()) for block in blocks]
    print(sum(inside))
    full = resident()
    for block in blocks:
        libc.free(block)
print(full - resident())
"""


@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").is_dir() or platform.libc_ver()[0] != "glibc",
    reason="a system or a C library that cannot be asked",
)
def test_what_is_allocated_next_is_in_large_pages_and_given_back() -> None:
    """Nearly all of 48 blocks of a megabyte; without them the process is small again."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    before, within, inside, given_back = map(int, done.stdout.split())

    assert before == 0
    assert within >= SIZE
    assert inside >= 40
    assert given_back >= 40 << 20


def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither on another system nor with another C library."""
    monkeypatch.setattr(module, "_c_library", lambda: pytest.fail("asked for"))
    monkeypatch.setattr(sys, "platform", "darwin")
    with large_pages(SIZE):
        pass
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(module, "_c_library", lambda: None)
    with large_pages(SIZE):
        pass
