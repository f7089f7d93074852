"""The files of a mirror: lines are appended, the rest is replaced as a whole, and all of it is synced before the state says so."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from recollect.errors import StorageError
from recollect.system import fsops

WRITE = "write"
_NEWLINE = b"\n"
# More logs than these are synced with their whole file system: one by one, each waits for the disk.
_MOST_SYNCED_ALONE = 16


class _LeftLines:
    """Lines of a log that a pass left which did not come to its end: this one finds them there instead of writing them.

    ``counts_from`` is where they begin, while some of them were not written again yet: readers see only those that were
    (``again``). It is None where there are none, or where something else changed the log, as ``redact`` does. ``torn`` is a line
    at the end that was begun and not ended.
    """

    def __init__(self, behind: Counter[bytes], counts_from: int | None, torn: range | None) -> None:
        self._behind, self.counts_from, self.torn = behind, counts_from, torn
        self.again: list[bytes] = []

    def not_written(self, lines: list[bytes]) -> list[bytes]:
        """Those of some lines that are not there yet."""
        if not self._behind:
            return lines
        found = []
        for line in lines:
            if self._behind[line[:-1]] > 0:
                self._behind[line[:-1]] -= 1
            else:
                found.append(line)
        self._behind = +self._behind
        if not self._behind:
            self.counts_from = None
            self.again.clear()
        elif self.counts_from is not None:
            self.again += lines
        return found


class AgentMirrorFiles:
    """What is written below the root of a mirror; ``home`` is what it mirrors."""

    def __init__(self, root: Path, home: Path) -> None:
        self._root, self._home = root, home
        self._unsynced: set[Path] = set()  # logs that this pass wrote
        self._unsynced_names: set[Path] = set()  # directories whose names of them may not be synced
        self._sizes: dict[str, int] = {}  # of the logs when the last pass came to its end
        self._is_lost = True  # what they were is not known
        self._left: dict[str, _LeftLines] = {}

    def begin(self, sizes: dict[str, int], *, is_lost: bool) -> None:
        """``sizes`` are those of the logs when a pass last came to its end; ``is_lost``: one did, and they are not known.

        What an earlier pass left unsynced, it did not say it has.
        """
        self._unsynced.clear()
        self._unsynced_names.clear()
        self._left.clear()
        self._sizes, self._is_lost = dict(sizes), is_lost

    @contextlib.contextmanager
    def writing(self, path: Path) -> Iterator[None]:
        """What goes wrong with our own copy is no fault of what is copied: the pass ends, and the next one repeats it."""
        try:
            yield
        except OSError as cause:
            again = fsops.next_step(cause, "run the command again: nothing is lost")
            hint = f"{again}; --data DIR keeps the copy of {self._home} in another directory"
            raise StorageError(WRITE, path, cause, hint=hint) from cause

    def put(self, path: Path, data: bytes) -> None:
        """A file as a whole."""
        with self.writing(path):
            fsops.make_directories(path.parent)
            fsops.replace_file(path, data)

    def add(self, log: str, lines: list[bytes]) -> int:
        """Lines at the end of a log; how many bytes it has then. They are synced with all others of the pass."""
        path = self._root / log
        fsops.make_directories(path.parent, synced=False)
        opened = fsops.open_append(path)
        self._unsynced.add(path)
        if log not in self._sizes:  # also where an earlier pass made it, and did not come to its end
            above = (one for one in path.parents if one.is_relative_to(self._root))
            self._unsynced_names.update(above)
        try:
            left = self._left_in(log, opened.fd)
            size = fsops.size_of(opened.fd)
            if left.torn is not None and left.torn.stop == size:
                size = left.torn.start
                fsops.truncate(opened.fd, size)
            left.torn = None
            try:
                fsops.write_all(opened.fd, b"".join(left.not_written(lines)))
            except OSError:
                fsops.truncate(opened.fd, size)  # a full disk: what was written of it is given back
                raise
            return fsops.size_of(opened.fd)
        finally:
            fsops.close(opened.fd)

    def lines(self, log: str) -> Iterator[bytes]:
        """The lines of a log as this pass has it: what an earlier one left does not count before it is written again."""
        with contextlib.suppress(FileNotFoundError), (self._root / log).open("rb") as file:
            left = self._left_in(log, file.fileno())
            end = left.counts_from
            for line in file:
                if end is not None and end <= 0:
                    break
                end = None if end is None else end - len(line)
                yield line
            yield from left.again

    def moved(self, log: str) -> None:
        """A log is not there any more, and is begun again."""
        self._left.pop(log, None)
        self._sizes.pop(log, None)

    def replaced(self, log: str) -> int:
        """A log was replaced as a whole: nothing is left in it. How many bytes it has."""
        self._left.pop(log, None)
        self._sizes[log] = size = (self._root / log).stat().st_size
        return size

    def _left_in(self, log: str, fd: int) -> _LeftLines:
        if log not in self._left:
            self._left[log] = _left_in(fd, self._sizes.get(log, 0), is_lost=self._is_lost)
        return self._left[log]

    def sync(self) -> None:
        """The state may only say what a loss of power leaves there: first the logs of this pass, and their names."""
        if len(self._unsynced) > _MOST_SYNCED_ALONE:
            with self.writing(self._root):
                if fsops.sync_file_system(self._root):
                    return
        for path in sorted(self._unsynced):
            with self.writing(path):
                fsops.sync_written(path)
        for directory in sorted(self._unsynced_names):
            with self.writing(directory):
                fsops.sync_dir(directory)


def _left_in(fd: int, known: int, *, is_lost: bool) -> _LeftLines:
    """What stands in a log behind the ``known`` bytes."""
    size = fsops.size_of(fd)
    is_appended = known <= size and (not known or fsops.pread(fd, 1, known - 1) == _NEWLINE)
    start = known if known <= size else 0
    behind = fsops.pread(fd, size - start, start)
    if known <= size:
        behind = behind[: behind.rfind(_NEWLINE) + 1]
    counts_from = start if is_appended and behind and not is_lost else None
    torn = range(start + len(behind), size)
    return _LeftLines(Counter(behind.split(_NEWLINE)[:-1]), counts_from, torn or None)
