"""The files of a mirror: lines are appended, the rest is replaced as a whole, and all of it is synced before the state says so."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from recollect.errors import StorageError
from recollect.system import fsops

WRITE = "write"
# More logs than these are synced with their whole file system: one by one, each waits for the disk.
_MOST_SYNCED_ALONE = 16


class AgentMirrorFiles:
    """What is written below the root of a mirror; ``home`` is what it mirrors."""

    def __init__(self, root: Path, home: Path) -> None:
        self._root, self._home = root, home
        self._unsynced: set[Path] = set()  # logs that this pass wrote
        self._unsynced_names: set[Path] = set()  # directories whose names of them may not be synced

    def begin(self) -> None:
        """What an earlier pass left unsynced, it did not say it has."""
        self._unsynced.clear()
        self._unsynced_names.clear()

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

    def add(self, log: str, lines: list[bytes], known: int | None) -> int:
        """Lines at the end of a log, which had ``known`` bytes; how many it has then. They are synced with all others of the pass."""
        path = self._root / log
        fsops.make_directories(path.parent, synced=False)
        opened = fsops.open_append(path)
        self._unsynced.add(path)
        if known is None:  # also where an earlier pass made it, and did not come to its end
            above = (one for one in path.parents if one.is_relative_to(self._root))
            self._unsynced_names.update(above)
        try:
            size = fsops.size_of(opened.fd)
            start = known if known is not None and known <= size else 0
            behind = fsops.pread(opened.fd, size - start, start)
            if (known or 0) <= size and behind and not behind.endswith(b"\n"):
                # The last pass was cut off: the line that it began is written again.
                behind = behind[: behind.rfind(b"\n") + 1]
                size = start + len(behind)
                fsops.truncate(opened.fd, size)
            try:
                fsops.write_all(opened.fd, b"".join(_not_behind(lines, behind) if behind else lines))
            except OSError:
                fsops.truncate(opened.fd, size)  # a full disk: what was written of it is given back
                raise
            return fsops.size_of(opened.fd)
        finally:
            fsops.close(opened.fd)

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


def _not_behind(lines: list[bytes], behind: bytes) -> Iterator[bytes]:
    """The lines that a pass which did not come to its end has not written yet."""
    written = Counter(behind.split(b"\n"))
    for line in lines:
        if written[line[:-1]] > 0:
            written[line[:-1]] -= 1
        else:
            yield line
