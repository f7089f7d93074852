"""Landlock: which rights a program keeps on which paths, as numbers for the helper.

Landlock only allows below a directory; it cannot exclude a part. So "everything but these" is expressed
by listing the siblings along each hidden path. A hidden path inside a writable tree cannot be
expressed, and the run is refused.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from recollect.errors import UsageError

LEAST_ABI = 4  # older versions cannot block TCP
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_CHANGE_NAMES = sum(1 << bit for bit in range(4, 13))
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_TCP_BIND, _TCP_CONNECT = 1 << 0, 1 << 1
_SCOPE_ABSTRACT, _SCOPE_SIGNAL = 1 << 0, 1 << 1
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "fd", "stdin", "stdout", "stderr")


@cache
def abi() -> int:
    """The ABI version of this kernel; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    version: int = ctypes.CDLL(None, use_errno=True).syscall(444, None, ctypes.c_size_t(0), 1)
    return max(version, 0)


def rules(
    write: Mapping[Path, int],
    hidden: Sequence[Path],
    own: Sequence[Path],
    shown: Sequence[Path],
    *,
    version: int,
    second_layer: bool,
) -> dict[str, object]:
    """The rules for the helper. As ``second_layer``, reads are left to the mounts beneath it.

    ``write`` are writable trees with their descriptors, ``own`` directories that we made for this run,
    ``shown`` what can be read although it is hidden. The
    helper gets the descriptor of a tree, except below mounts: there the path leads only to what is mounted.
    """
    change = _WRITE_FILE | _CHANGE_NAMES
    change |= (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    handled = (
        change | (0 if second_layer else _READ) | (_IOCTL_DEV if version >= 5 and not second_layer else 0)
    )
    beneath: list[tuple[str | int, int]] = [
        (str(path) if second_layer else descriptor, handled) for path, descriptor in write.items()
    ]
    beneath += [(str(path), handled) for path in own]
    if second_layer:
        beneath += [("/dev", change), ("/tmp", change)]  # noqa: S108 - the jail's own
    else:
        beneath += [(str(path), _READ) for path in (*_readable((*write, *own), hidden), *shown)]
        beneath += [(f"/dev/{name}", _READ_FILE | _WRITE_FILE | _TRUNCATE & handled) for name in _DEVICES]
    alone = not second_layer
    return {
        "files": handled,
        "network": (_TCP_BIND | _TCP_CONNECT) if alone and version >= 4 else 0,
        "scoped": (_SCOPE_ABSTRACT | _SCOPE_SIGNAL) if alone and version >= 6 else 0,
        "size": 24 if version >= 6 else 16 if version >= 4 else 8,
        "beneath": beneath,
    }


def _readable(write: Sequence[Path], hidden: Sequence[Path]) -> Iterable[Path]:
    """Everything but ``hidden`` and the devices, as the smallest set of trees."""
    left_out = [Path("/dev"), *hidden]
    for secret in hidden:
        for tree in write:
            if secret == tree or tree in secret.parents:
                raise UsageError(
                    f"Landlock cannot hide {secret} inside the writable {tree}",
                    hint="install bubblewrap, or make a directory writable that does not hold it",
                )
    yield from map(Path, _without("/", _branches(left_out)))


class _ExclusionTree(dict[str, "_ExclusionTree"]):
    """Names along the excluded paths; one with nothing below it is itself excluded."""


def _branches(left_out: Iterable[Path]) -> _ExclusionTree:
    top = _ExclusionTree()
    for path in sorted(left_out, key=lambda path: len(path.parts)):
        branch = top
        for depth, name in enumerate(path.parts[1:], 2):
            if name in branch and not branch[name]:
                break  # inside something that is excluded already
            branch = branch.setdefault(name, _ExclusionTree())
            if depth == len(path.parts):
                branch.clear()
    return top


def _without(tree: str, branches: _ExclusionTree) -> Iterable[str]:
    try:
        entries = list(os.scandir(tree))
    except OSError as problem:
        if problem.errno in (errno.EACCES, errno.ENOENT, errno.ENOTDIR):
            return
        raise
    for entry in entries:
        branch = branches.get(entry.name)
        if entry.is_symlink():
            continue  # a link grants nothing; its target has its own path
        if branch is None:
            yield entry.path
        elif branch:
            yield from _without(entry.path, branch)
