"""The arguments for bubblewrap: mounts and namespaces of one sandbox.

The whole disk is read-only, writable trees are bound over it, hidden places covered, and names that
others execute bound read-only again. There is no network, no other process, no device, and a small
private /tmp. The deeper path wins, and of two for one path the stricter: a secret inside a writable
tree is hidden, a project inside a hidden home is not.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PRIVATE = "/tmp/.recollect"  # noqa: S108 - inside the jail /tmp is its own
_NAMESPACES = (
    "--unshare-user",
    "--unshare-ipc",
    "--unshare-pid",
    "--unshare-net",
    "--unshare-uts",
    "--unshare-cgroup-try",
)


@dataclass(frozen=True, slots=True)
class Mounts:
    """What is mounted over the read-only disk: path inside -> descriptor of what is bound there.

    Descriptors, because a path could lead elsewhere by the time bubblewrap looks at it.
    """

    write: Mapping[Path, int]
    hidden: Sequence[Path]
    held: Mapping[Path, int]
    """Bound read-only inside writable trees."""
    pinned: Mapping[Path, int]
    """Parent directories of held names: mount points, so that they cannot be renamed."""
    shown: Mapping[Path, int]
    """Needed inside though below a directory that is private to the sandbox."""

    @property
    def descriptors(self) -> list[int]:
        """All of them, to be passed on."""
        return [one for bound in (self.write, self.held, self.pinned, self.shown) for one in bound.values()]


@cache
def program() -> str | None:
    """The path of bwrap."""
    return shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin")


@cache
def binds_descriptors() -> bool:
    """Whether it takes descriptors to bind (0.10, and older versions with the security fix of 2024)."""
    said = subprocess.run([program() or "bwrap", "--help"], capture_output=True, check=False)
    return b"--ro-bind-fd" in said.stdout + said.stderr


def arguments(mounts: Mounts, *, cwd: Path, private_bytes: int, info: int) -> list[str]:
    argv = [program() or "bwrap", "--die-with-parent", "--new-session", "--cap-drop", "ALL", *_NAMESPACES]
    argv += ["--hostname", "recollect", "--info-fd", str(info)]
    argv += ["--ro-bind", "/", "/", "--dev", "/dev", "--size", str(private_bytes), "--tmpfs", "/dev/shm"]  # noqa: S108
    # Read-only: root without capabilities still owns /proc/sys, and bwrap covers only what it finds writable.
    argv += ["--remount-ro", "/dev", "--proc", "/proc", "--remount-ro", "/proc"]
    argv += ["--size", str(private_bytes), "--tmpfs", "/tmp"]  # noqa: S108
    for place in (PRIVATE, f"{PRIVATE}/home", f"{PRIVATE}/temporary"):
        argv += ["--dir", place]
    for words in _over(mounts):
        argv += words
    return [*argv, "--chdir", str(cwd), "--"]


def _over(mounts: Mounts) -> list[list[str]]:
    steps: list[tuple[int, int, list[str]]] = []
    sealed: list[str] = []

    def add(order: int, path: Path, *words: str) -> None:
        steps.append((len(path.parts), order, list(words)))

    for order, option, bound in (
        (0, "--ro-bind-fd", mounts.shown),
        (1, "--bind-fd", mounts.write),
        (1, "--bind-fd", mounts.pinned),
        (2, "--ro-bind-fd", mounts.held),
    ):
        for path, descriptor in bound.items():
            add(order, path, option, str(descriptor), str(path))
    for path in mounts.hidden:
        if path.is_dir():
            add(3, path, "--perms", "0111", "--tmpfs", str(path))
            sealed += ["--remount-ro", str(path)]  # last: a project below it still needs its mount point
        else:
            add(3, path, "--ro-bind", "/dev/null", str(path))
    return [*(words for _, _, words in sorted(steps, key=lambda step: step[:2])), sealed]


def shown_of_tmp(named: Iterable[str], trees: Iterable[Path]) -> dict[Path, int]:
    """The top-level entries of /tmp that the command names, opened; a link among them is left out.

    The sandbox has a private /tmp and needs them bound.
    """
    tops: dict[Path, int] = {}
    for text in dict.fromkeys(named):
        parts = Path(text).parts
        top = Path(*parts[:3])
        if parts[:2] != ("/", "tmp") or len(parts) < 3 or top in trees or top in tops:
            continue
        with contextlib.suppress(OSError):
            opened = os.open(top, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            if stat.S_ISLNK(os.fstat(opened).st_mode):
                os.close(opened)
            else:
                tops[top] = opened
    return tops
