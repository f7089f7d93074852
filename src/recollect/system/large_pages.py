"""Memory in large pages, for work that visits tens of megabytes in no order.

The full-text table collects words in a hash table, and every word of every log is looked up in it. In pages of 4 KB most of
that time is spent finding the page. Linux gives pages of 2 MB to memory that asks for them; the allocator of the C library
asks only if a variable of the environment said so when the process began. So its heap is made larger here, once, and asked for.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

# From malloc.h and mman.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_HUGE_PAGE_ADVICE = 14
_PAGE = 2 << 20
_LARGEST_BLOCK = 32 << 20  # larger ones get memory of their own
_FIRST_BLOCK = 16 << 20  # more than the heap of a new process has left


@contextlib.contextmanager
def large_pages(size: int) -> Iterator[None]:
    """The next ``size`` bytes of this process are in large pages, where there are such. Unused memory is given back at the end."""
    libc = _c_library() if sys.platform == "linux" else None
    if libc is None:
        yield
        return
    libc.mallopt(_MMAP_THRESHOLD, _LARGEST_BLOCK)
    libc.mallopt(_TRIM_THRESHOLD, 2 * size)
    libc.mallopt(_TOP_PAD, size)
    before = libc.sbrk(0)
    libc.free(libc.malloc(_FIRST_BLOCK))  # it makes the heap grow by this block and ``size``
    libc.mallopt(_TOP_PAD, 0)
    start = -(-before // _PAGE) * _PAGE
    # In another thread the heap is not the one that grows here: then there is nothing to ask for.
    libc.madvise(start, max(libc.sbrk(0) - start, 0), _HUGE_PAGE_ADVICE)
    try:
        yield
    finally:
        libc.mallopt(_TRIM_THRESHOLD, _PAGE)
        libc.malloc_trim(0)


def _c_library() -> Any:
    """The C library with the types of what is called; None if it is not glibc."""
    import ctypes

    libc = ctypes.CDLL(None)
    if not hasattr(libc, "malloc_trim"):
        return None
    pointer, number, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
    libc.mallopt.argtypes = [number, number]
    libc.malloc.argtypes, libc.malloc.restype = [size], pointer
    libc.free.argtypes = [pointer]
    libc.sbrk.argtypes, libc.sbrk.restype = [ctypes.c_ssize_t], pointer
    libc.madvise.argtypes = [pointer, size, number]
    libc.malloc_trim.argtypes = [size]
    return libc
