"""Kill an operation at every call that changes anything, and judge what is left: what the kill tests share."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.crash.change_loop import LOOKING, Calls, end_process, never_returning

TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
# How many moments of each operation are tried on an ordinary day.
DAILY = 3
Tree = dict[str, tuple[int, bytes]]

both_sides = pytest.mark.parametrize("how", ["killed before", "killed after"])


class Operation(NamedTuple):
    """Something that changes a home: what there is before, and what is done to it."""

    lay_down: Callable[[Path, Path], object]
    act: Callable[[Path, Path], object]


def tree_of(root: Path) -> Tree:
    """Every name, hidden ones too: modes, and the bytes of files."""
    found: Tree = {}
    for path in sorted(root.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        found[path.relative_to(root).as_posix()] = (mode, path.read_bytes() if path.is_file() else b"")
    return found


class Place:
    """A fresh home and our own directory, for one case."""

    def __init__(self, root: Path, lay_down: Callable[[Path, Path], object]) -> None:
        self.home, self.data = root / "home", root / "data"
        for directory in (self.home, self.data):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
        lay_down(self.home, self.data)


def killed_at(work: Callable[[], object], nth: int, how: str) -> tuple[int, list[int]]:
    """Work in a child that ends at its nth call; how it ended, and which of its calls changed anything."""
    counted, told = os.pipe()
    child = os.fork()
    if child == 0:
        with never_returning():
            calls = Calls(end_process)
            calls.watch(setattr)
            calls.arm(nth, how)
            work()
            calls.disarm()
            changing = [
                number for number, name in enumerate(calls.names, 1) if name not in (*LOOKING, "pread")
            ]
            os.write(told, json.dumps(changing).encode())
    os.close(told)
    _, status = os.waitpid(child, 0)
    made = os.read(counted, 1 << 16)
    os.close(counted)
    return os.waitstatus_to_exitcode(status), json.loads(made or b"[]")


def moments(calls: list[int]) -> list[int]:
    """All of them in a torture run, else a few that lie apart."""
    return calls[:: 1 if TORTURE else max(1, len(calls) // DAILY)]


def sweep(
    root: Path,
    operation: Operation,
    how: str,
    judge: Callable[[Place, Counter[str]], object],
    name: str,
    *,
    every: int = 1,
) -> Counter[str]:
    """Kill it at every moment; ``judge`` looks at what is left and counts. Prints the counts.

    ``every``: where a case takes long, on an ordinary day fewer of the few moments.
    """
    whole = Place(root, operation.lay_down)
    code, calls = killed_at(partial(operation.act, whole.home, whole.data), 0, how)
    assert (0, True) == (code, bool(calls))
    ends: Counter[str] = Counter()
    for nth in moments(calls)[:: 1 if TORTURE else every]:
        place = Place(root, operation.lay_down)
        code, _ = killed_at(partial(operation.act, place.home, place.data), nth, how)
        ends["killed"] += code == -signal.SIGKILL
        ends["cases"] += 1
        judge(place, ends)
    print(f"\n{name} {how} {ends['cases']} of {len(calls)} calls: {dict(ends)}")
    assert ends["killed"] * 2 > ends["cases"]
    return ends


def old_and_new(root: Path, operation: Operation) -> tuple[Tree, Tree]:
    place = Place(root, operation.lay_down)
    old = tree_of(place.home)
    operation.act(place.home, place.data)
    new = tree_of(place.home)
    assert old != new
    return old, new


def expect(ends: Counter[str], *names: str) -> None:
    """All cases ended so."""
    assert dict.fromkeys(names, ends["cases"]) == {one: ends[one] for one in names}
