"""Find credentials in a home, reported by kind, place and fingerprint; never by value.

``secrets`` searches all files of one or several homes, or of some sessions, in one process per core if there is
much to read. Secrets on the allow list (``store.own_settings``) are counted and not listed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, structs

from recollect.ask.homes import Homes
from recollect.ask.secrets.places import HomePlaces, SecretPlace, client_files, copies, distinct
from recollect.ask.secrets.redactor import Fingerprints
from recollect.ask.sessions.session import Session
from recollect.errors import NotFound, StorageError
from recollect.index.file_results import ReadState, file_results
from recollect.model.lines.json_text import loose_object
from recollect.model.secrets.documents import SecretHit, hits_in_json, hits_in_text
from recollect.model.secrets.prefilter import digest, suspects
from recollect.model.secrets.redaction import fingerprint
from recollect.store.logs.reader import OpenLog
from recollect.store.own_settings import ignored_secrets
from recollect.system.locations import data_dir
from recollect.system.pool import ProgressCallback, Run, WorkerPool, bundles, cores, largest_first
from recollect.version import __version__


class SecretFinding(Struct, frozen=True):
    """A secret and its place. ``line`` counts from 1; ``offset`` is the byte where that line starts."""

    kind: str
    fingerprint: str
    path: str
    role: str
    session: str | None
    agent: str | None
    line: int
    offset: int
    field: str


class PlaceScan(Struct, frozen=True):
    """The result for one file. ``problem`` says why it was not, or not completely, searched."""

    findings: list[SecretFinding]
    bytes: int = 0
    problem: str | None = None
    state: ReadState | None = None


# Below this, starting a process takes longer than searching here.
_WORTH_A_PROCESS = 16 << 20


class SecretScan(Struct, frozen=True):
    """The findings and how much was searched; ``ignored`` ones are left out.

    ``problems`` could not be read.
    """

    findings: list[SecretFinding]
    files: int
    bytes: int
    ignored: int
    problems: list[tuple[str, str]]
    notes: list[str]

    @property
    def secrets(self) -> int:
        """How many different secrets."""
        return len({one.fingerprint for one in self.findings})


class FoundSecret(Struct, frozen=True):
    """One secret: the sessions whose own files have it, and how often each other kind of place does."""

    kind: str
    fingerprint: str
    sessions: list[str]
    places: dict[str, int]


_PLACES = {
    "history": "prompt history",
    "paste": "prompt history",
    "archive": "archive",
    "trash": "trash",
    "undo": "undo data",
    "quarantine": "quarantine",
    "left-over": "left-over files",
    "settings": "settings",
    "config": "settings",
    "shell": "shell snapshots",
    "memory": "notes",
    "plan": "plans",
    "client": "other agents' own files",
}


def by_secret(findings: Iterable[SecretFinding]) -> list[FoundSecret]:
    """Findings by what was found; equal fingerprints are one secret, whatever its kind was taken for."""
    found: dict[str, list[SecretFinding]] = {}
    for finding in findings:
        found.setdefault(finding.fingerprint, []).append(finding)
    result = []
    for digits, same in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        own = [one.session for one in same if one.role not in _PLACES and one.session is not None]
        rest = (one for one in same if one.role in _PLACES or one.session is None)
        places = Counter(_PLACES.get(one.role, "files of no session") for one in rest)
        kind = Counter(one.kind for one in same).most_common(1)[0][0]
        result.append(FoundSecret(kind, digits, list(dict.fromkeys(own)), dict(places)))
    return result


def scan(
    home: Homes,
    sessions: Sequence[Session] | None = None,
    *,
    data: Path | None = None,
    everywhere: bool = False,
    progress: ProgressCallback | None = None,
    processes: int | None = None,
) -> SecretScan:
    """Every secret of some sessions, or of everything in the homes; ``everywhere``: and of the copies that we keep."""
    own = data_dir() if data is None else data
    fingerprints = Fingerprints(own)
    ignored = ignored_secrets()
    places, problems = _places(home, sessions)
    if everywhere:
        places = distinct([*places, *_copies(home, sessions, own)])
    findings: list[SecretFinding] = []
    done = read = passed = 0
    total = sum(place.size for place in places)
    for place, result in _results(home, places, fingerprints.key, processes):
        done += place.size
        read += result.bytes
        if result.problem is not None:
            problems.append((str(place.path), result.problem))
        for finding in result.findings:
            if f"{finding.kind}:{finding.fingerprint}" in ignored:
                passed += 1
            else:
                findings.append(finding)
        if progress is not None:
            progress(done, total)
    findings.sort(key=lambda one: (one.path, one.line, one.offset))
    return SecretScan(findings, len(places), read, passed, problems, fingerprints.notes)


def _results(
    home: Homes, places: Sequence[SecretPlace], key: bytes, processes: int | None
) -> Iterator[tuple[SecretPlace, PlaceScan]]:
    """The result of each place; files that did not change since are not read again."""
    # Fingerprints depend on the key, so results of another key are results of other rules.
    rules = f"{__version__}-{digest()}-{fingerprint('rules', key)}"
    roots = [one.root for one in home.homes]
    with file_results("secrets", rules, roots, home.index_cache, is_wanted=home.has_index) as kept:
        unknown: list[SecretPlace] = []
        for place in places:
            known = None if place.only_own else kept.get(str(place.path), place.seen)
            if known is None:
                unknown.append(place)
            else:
                yield place, msgspec.msgpack.decode(known, type=PlaceScan)
        if not unknown:
            return
        is_small = sum(place.size for place in unknown) < _WORTH_A_PROCESS
        count = (1 if is_small else cores()) if processes is None else processes
        # One more process would only wait for another.
        for place, data in scan_places(unknown, key, count if count > 1 else 0):
            result = msgspec.msgpack.decode(data, type=PlaceScan)
            if result.state is not None and not place.only_own:
                kept.add(place.path, result.state, data)
            yield place, result


def _copies(home: Homes, sessions: Sequence[Session] | None, data: Path) -> Iterator[SecretPlace]:
    if sessions is None:
        for one in home.homes:
            yield from copies(data, one)
            yield from client_files(one)
    else:
        for session in sessions:
            yield from copies(data, session.home, session.id)


def _places(
    home: Homes, sessions: Sequence[Session] | None
) -> tuple[list[SecretPlace], list[tuple[str, str]]]:
    listed: list[SecretPlace] = []
    problems: list[tuple[str, str]] = []
    if sessions is None:
        for one in home.homes:
            places = HomePlaces(one)
            listed += places.all()
            problems += places.problems
    else:
        for session in sessions:
            places = HomePlaces(session.home)
            listed += places.of(session)
            problems += places.problems
        # The prompt history is searched per session, each for its own lines.
        shared = [place for place in listed if place.only_own]
        return distinct(place for place in listed if not place.only_own) + shared, problems
    return distinct(listed), problems


# What is read stays in the processor's own cache until it was searched.
_BLOCK = 256 << 10
_BUNDLE = 1 << 20
LONGEST_LINE = 64 << 20
_PIECE, _OVERLAP = 4 << 20, 32 << 10


def secrets_job(key: bytes) -> Run:
    """A job of ``system.pool`` that searches some places. No secret leaves the process."""

    def run(plain: list[tuple[Any, ...]]) -> Iterator[list[bytes]]:
        yield [
            msgspec.msgpack.encode(scan_place(SecretPlace(Path(path), *rest), key)) for path, *rest in plain
        ]

    return run


def scan_places(
    places: Sequence[SecretPlace], key: bytes, processes: int
) -> Iterator[tuple[SecretPlace, bytes]]:
    """The encoded result of each place, in order of completion, the largest places first."""
    tasks = [(str(place.path), *structs.astuple(place)[1:]) for place in places]
    sizes = [place.size for place in places]
    # Opening a file costs about as much as searching so many bytes of it.
    shares = list(bundles(largest_first(sizes), [size + 20_000 for size in sizes], _BUNDLE))
    pool = WorkerPool(secrets_job, key, processes=processes)
    for number, scanned in pool.answers([[tasks[at] for at in share] for share in shares]):
        yield from zip((places[at] for at in shares[number]), scanned, strict=True)


def scan_place(place: SecretPlace, key: bytes) -> PlaceScan:
    """Every secret of a file; one that cannot be read is a problem, never an error."""
    findings: list[SecretFinding] = []
    try:
        with OpenLog(place.path) as log:
            state = ReadState.of(log.stat())
            look = _PlaceReader(log, place, key)
            findings.extend(look.findings())
            return PlaceScan(findings, look.size, state=state)
    except NotFound:
        return PlaceScan(findings)
    except StorageError as cause:
        return PlaceScan(findings, 0, cause.message)


def in_long_lines(place: SecretPlace, findings: Sequence[SecretFinding]) -> list[SecretFinding]:
    """Those in lines over the limit, which no client reads and nothing rewrites."""
    if place.shape != "lines" or place.size <= LONGEST_LINE or not findings:
        return []
    with OpenLog(place.path) as log:
        size = log.size()
        return [
            one
            for one in findings
            if (log.next_line(one.offset + 1, size) or size) - one.offset > LONGEST_LINE
        ]


class ScanBlock(NamedTuple):
    """Whole lines of a log and where they start; or, ``is_part``, a piece of an oversize line."""

    position: int
    data: bytes
    is_part: bool = False


def line_blocks(log: OpenLog, size: int) -> Iterator[ScanBlock]:
    """All of a log, block by block; the last line may have no newline yet."""
    position = 0
    while position < size:
        data = _whole_lines(log, position, size)
        if len(data) > LONGEST_LINE:
            end = log.next_line(position + 1, size) or size
            data = log.read_all(min(_PIECE, end - position), position)
            while data and position < end:
                yield ScanBlock(position, data, is_part=True)
                position += len(data)
                data = log.read_all(min(_PIECE, end - position), position)
        elif data:
            yield ScanBlock(position, data)
            position += len(data)
        else:
            return  # the log was cut meanwhile


def _whole_lines(log: OpenLog, position: int, size: int) -> bytes:
    wanted = _BLOCK
    while True:
        data = log.read_all(min(wanted, size - position), position)
        if position + len(data) >= size or len(data) < wanted:
            return data  # including an unterminated last line: a secret in it counts too
        newline = data.rfind(b"\n")
        if newline >= 0:
            return data[: newline + 1]
        if len(data) > LONGEST_LINE:
            return data
        wanted = min(wanted * 4, LONGEST_LINE + 1)


class _PlaceReader:
    """One open file that is searched."""

    def __init__(self, log: OpenLog, place: SecretPlace, key: bytes) -> None:
        self._log, self._place, self._key = log, place, key
        self.size = log.size()
        self._number, self._counted = 1, 0

    def findings(self) -> Iterator[SecretFinding]:
        if self._place.shape == "lines":
            return self._in_lines()
        is_document = self._place.shape == "document" and self.size <= LONGEST_LINE
        return self._in_document() if is_document else self._in_text()

    def _in_lines(self) -> Iterator[SecretFinding]:
        long_line = None
        for position, block, is_part in line_blocks(self._log, self.size):
            if is_part:
                long_line = position if long_line is None else long_line
                end = position + len(block)
                if block.endswith(b"\n") or end >= self.size:
                    for _, hit in self._hits_in_pieces(long_line, end):
                        yield self._finding(hit, long_line)
                    long_line = None
                continue
            for start, stop in suspects(block):
                yield from self._in_line(block[start:stop], position + start)

    def _in_line(self, line: bytes, offset: int) -> Iterator[SecretFinding]:
        place = self._place
        if place.role == "history" or place.session is None:
            # Only the line itself names its session, as with flat sub-agents.
            named = loose_object(line).get("sessionId")
            owner = named if isinstance(named, str) else None
            if place.only_own and owner != place.session:
                return
            place = structs.replace(place, session=owner)
        for hit in hits_in_json(line):
            yield self._finding(hit, offset, place)

    def _in_document(self) -> Iterator[SecretFinding]:
        data = self._log.read_all(self.size, 0)
        for hit in hits_in_json(data):
            yield self._finding(hit, data.rfind(b"\n", 0, hit.spans[0].start) + 1)

    def _in_text(self) -> Iterator[SecretFinding]:
        for first, hit in self._hits_in_pieces(0, self.size):
            yield self._finding(hit, self._log.line_start(first))

    def _number_of(self, start: int) -> int:
        """The number of the line that starts here, counted from the last one asked for: few lines hold a secret."""
        if start < self._counted:
            self._number, self._counted = 1, 0
        while self._counted < start:
            piece = self._log.read_all(min(_PIECE, start - self._counted), self._counted)
            if not piece:
                break  # the log was cut meanwhile
            self._number += piece.count(b"\n")
            self._counted += len(piece)
        return self._number

    def _hits_in_pieces(self, start: int, end: int) -> Iterator[tuple[int, SecretHit]]:
        """Hits in a long text, each with its position in the file; hits in an overlap count once."""
        position, seen = start, start
        while position < end:
            data = self._log.read_all(min(_PIECE, end - position), position)
            behind = position + len(data)
            for hit in hits_in_text(data):
                first, last = position + hit.spans[0].start, position + hit.spans[-1].end
                # A match that reaches into the second half of the overlap may be cut here and is whole in the
                # next piece.
                is_cut = behind < end and last > behind - _OVERLAP // 2 and first >= behind - _OVERLAP
                if first >= seen and not is_cut:
                    seen = last
                    yield first, hit
            if not data or behind >= end:
                return
            position = behind - _OVERLAP

    def _finding(self, hit: SecretHit, offset: int, place: SecretPlace | None = None) -> SecretFinding:
        place = place or self._place
        return SecretFinding(
            kind=hit.kind,
            fingerprint=fingerprint(hit.secret, self._key),
            path=str(place.path),
            role=place.role,
            session=place.session,
            agent=place.agent,
            line=self._number_of(offset),
            offset=offset,
            field=hit.field,
        )


class SuspectLines:
    """The suspect parts of a log as it was when they were looked for."""

    def __init__(self, log: OpenLog) -> None:
        self._end = log.size()
        spans = (
            (position + start, position + stop)
            for position, block, is_part in line_blocks(log, self._end)
            for start, stop in ([(0, len(block))] if is_part else suspects(block))
        )
        self._starts, self._stops = [], []
        for start, stop in spans:
            self._starts.append(start)
            self._stops.append(stop)

    def may_be_in(self, offset: int, length: int) -> bool:
        """Whether some of these bytes are suspect, or were not there yet."""
        at = bisect_left(self._starts, offset + length)
        return offset + length > self._end or (at > 0 and self._stops[at - 1] > offset)
