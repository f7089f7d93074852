"""Search one file for secrets: blocks of whole lines, most of them skipped without parsing.

The result names a secret by kind, fingerprint and place; the secret itself never leaves this module. Memory
is constant: a line beyond the limit, and a text of any length, is searched in overlapping pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from recollect.errors import NotFound, StorageError
from recollect.model.json.text import loose_object
from recollect.model.secrets import scan_engine
from recollect.model.secrets.documents import SecretHit, hits_in_json, hits_in_text
from recollect.model.secrets.fingerprint import fingerprint
from recollect.model.secrets.prefilter import suspects
from recollect.services.indexing.file_results import ReadState
from recollect.services.secrets.engine import engine_ready, use_engine
from recollect.services.secrets.place_results import PlaceScan, SecretFinding
from recollect.services.secrets.places import SecretPlace
from recollect.storage.logs.reader import OpenLog
from recollect.system.pool import Run, WorkerPool, bundles, largest_first

# What is read stays in the processor's own cache until it was searched.
_BLOCK = 256 << 10
_BUNDLE = 1 << 20
LONGEST_LINE = 64 << 20
_PIECE, _OVERLAP = 4 << 20, 32 << 10


def secrets_job(setup: tuple[bytes, str]) -> Run:
    """A job of ``system.pool`` that searches some places. No secret leaves the process."""
    key, engine = setup
    if engine and scan_engine.engine() is None:  # a copy of the caller has it already
        use_engine(Path(engine))

    def run(plain: list[tuple[Any, ...]]) -> Iterator[list[bytes]]:
        yield [
            msgspec.msgpack.encode(scan_place(SecretPlace(Path(path), *rest), key)) for path, *rest in plain
        ]

    return run


def scan_places(
    places: Sequence[SecretPlace], key: bytes, processes: int, cache: Path | None = None
) -> Iterator[tuple[SecretPlace, bytes]]:
    """The encoded result of each place, in order of completion, the largest places first.

    ``cache`` keeps the compiled engine; by default that of this machine.
    """
    tasks = [(str(place.path), *structs.astuple(place)[1:]) for place in places]
    sizes = [place.size for place in places]
    engine = engine_ready(sum(sizes), cache)
    # Opening a file costs about as much as searching so many bytes of it.
    shares = list(bundles(largest_first(sizes), [size + 20_000 for size in sizes], _BUNDLE))
    pool = WorkerPool(secrets_job, (key, str(engine or "")), processes=processes, ahead=2, may_fork=True)
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
