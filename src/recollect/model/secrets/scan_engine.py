"""The scan engine (Vectorscan): all needles in one pass over a block, at memory speed.

The engine compiles its expressions for the processor at hand, which takes half a second. So it is used
only once ``use`` was given a compiled database; until then, and on platforms without the library, the
prefilter works without it and finds the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from recollect.model.secrets.base64_runs import LONG_BASE64, LONG_RUN, ends_of_text
from recollect.model.secrets.needles import BEFORE, Needle, needles

# Calling the engine costs more than it gains on a shorter text.
WORTH_A_SCAN = 4 << 10


class ScanWindow(NamedTuple):
    """A part of a block to examine: for words that are long, for rare ones, or for both."""

    start: int
    end: int
    has_long: bool
    has_rare: bool


class EngineMatches(NamedTuple):
    """What the engine found in a block: parts to examine, ends of the first letters of base64, whether there are colours."""

    windows: list[ScanWindow]
    base64: list[int]
    has_colours: bool


# Called with the number of an expression and the start and end of a match; the rest is the library's own.
_OnMatch = Callable[[int, int, int, int, object], None]


class _CompiledNeedles:
    """A compiled database, shared by all threads; each has working memory of its own."""

    def __init__(self, database: Any) -> None:
        # Working memory that no thread uses at the moment.
        self._database, self._unused = database, list[Any]()

    def scan(self, block: bytes | memoryview, note: _OnMatch) -> None:
        memory = self._unused.pop() if self._unused else _library().Scratch(self._database)
        self._database.scan(block, match_event_handler=note, scratch=memory)
        self._unused.append(memory)


class ScanEngine:
    """All needles, and runs of base64."""

    def __init__(self, database: Any, runs: Any) -> None:
        self._database, self._runs = _CompiledNeedles(database), _CompiledNeedles(runs)
        self._needles: list[Needle] = needles()

    def matches(self, block: bytes) -> EngineMatches:
        found: list[tuple[int, int]] = []

        def note(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            found.append((end, number))

        self._database.scan(block, note)
        windows: list[ScanWindow] = []
        has_colours = False
        for end, number in found:
            needle = self._needles[number]
            if needle.is_colour:
                has_colours = True
            else:
                _add(windows, end, needle)
        return EngineMatches(windows, ends_of_text(block, self._first_run), has_colours)

    def _first_run(self, block: memoryview) -> int | None:
        found: list[int] = []

        def note(_number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            found.append(end)

        if len(block) >= LONG_BASE64:
            self._runs.scan(block, note)
        return found[0] if found else None


def _add(windows: list[ScanWindow], end: int, needle: Needle) -> None:
    """One more match: in a window of its own, or in the last one if it reaches that far."""
    start, behind, is_rare = end - BEFORE, end + needle.behind, needle.is_rare
    if windows and start <= windows[-1].end:
        last = windows.pop()
        start, behind = last.start, max(last.end, behind)
        windows.append(ScanWindow(start, behind, last.has_long or not is_rare, last.has_rare or is_rare))
    else:
        windows.append(ScanWindow(start, behind, not is_rare, is_rare))


_engine: ScanEngine | None = None


def engine() -> ScanEngine | None:
    """The engine in use, if any."""
    return _engine


def use(compiled: bytes) -> bool:
    """Take a compiled database into use; False if it was made by another version or for another processor."""
    global _engine  # noqa: PLW0603 -- one engine for the process, as with a compiled expression
    library = _library()
    if library is None:
        return False
    try:
        _engine = ScanEngine(library.loadb(compiled, library.HS_MODE_BLOCK), _run_database(library))
    except (ValueError, library.HyperscanError):
        return False
    return True


def compiled() -> bytes | None:
    """A database for this processor; None where the library is missing or cannot compile it."""
    library = _library()
    if library is None:
        return None
    database, wanted = library.Database(), needles()
    once = library.HS_FLAG_SINGLEMATCH
    try:
        database.compile(
            expressions=[one.expression for one in wanted],
            ids=list(range(len(wanted))),
            flags=[once if one.is_colour else 0 for one in wanted],
        )
        return bytes(library.dumpb(database))
    except library.HyperscanError:
        return None


def _run_database(library: Any) -> Any:
    """One expression compiles in less time than it takes to load."""
    database = library.Database()
    database.compile(expressions=[LONG_RUN], ids=[0], flags=[library.HS_FLAG_SINGLEMATCH])
    return database


def version() -> str:
    """The version of the library; empty where it is missing."""
    library = _library()
    return "" if library is None else str(library.__version__)


def _library() -> Any:
    try:
        import hyperscan
    except ImportError:  # no wheel for this platform
        return None
    return hyperscan
