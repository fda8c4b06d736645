"""Make a process cheap to fork: its memory in huge pages, of which a fork copies one entry instead of 512."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from pathlib import Path

SIZE = 1 << 21
"""Bytes of a huge page on x86-64, and on arm64 with pages of 4 KiB."""
_COLLAPSE = 25
"""MADV_COLLAPSE, since Linux 6.1; an older kernel refuses, and everything stays as it was."""


def gather_into_huge_pages() -> None:
    """Move the private memory of this process into huge pages, where it lies close enough together."""
    libc = ctypes.CDLL(None)
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for begin, end in private_memory():
        libc.madvise(begin, end - begin, mmap.MADV_HUGEPAGE)
        libc.madvise(begin, end - begin, _COLLAPSE)


def private_memory() -> Iterator[tuple[int, int]]:
    """Begin and end of each stretch of writable memory without a file that holds whole huge pages, as addresses."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, rights, _, _, _, *name = line.split(maxsplit=5)
        if rights == "rw-p" and name in ([], ["[heap]"]):
            first, last = (int(address, 16) for address in addresses.split("-"))
            begin, end = -(-first // SIZE) * SIZE, last // SIZE * SIZE
            if begin < end:
                yield begin, end
