"""A log written in any slices says at the end what one read of it says: nothing twice, nothing missing.

Between two slices everything that reads on where it stopped reads on: the follower, the graph, the index, the
sync. Slices end anywhere: in the middle of a line, before its newline, between two objects on one line.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from recollect.index.database import IndexDatabase
from recollect.index.refresh import refresh
from recollect.model.conversation.graph import Node
from recollect.model.lines.damage import Damage, readable, readable_entries
from recollect.model.lines.entry import Entry
from recollect.store.logs.conversation_cache import ConversationCache, LogGraph
from recollect.store.logs.follow import Follower, Reset
from recollect.store.logs.reader import LogReader
from tests.client_parser import client_lines
from tests.index.projection import Projection, differences, faults, projection
from tests.memory import memory
from tests.share.sync.machines import Machine, remote_log
from tests.share.sync.memory_remote import MemoryRemote
from tests.talk import assistant, user

ONE = "11111111-1111-4111-8111-111111111111"


def _line(number: int) -> bytes:
    parent = f"n{number - 1}" if number else None
    said = (
        assistant(f"n{number}", parent, number, f"answer {number}")
        if number % 2
        else user(f"n{number}", parent, number, f"question {number}")
    )
    return msgspec.json.encode({**said, "sessionId": ONE})


def _spread(number: int) -> bytes:
    return msgspec.json.format(_line(number), indent=1)


def _pieces(number: int) -> list[bytes]:
    """Ways to write one entry, or to write it badly."""
    line = _line(number)
    return [
        line + b"\n",
        line + b"\n",
        line + b"\r\n",
        line + b" \n\n",
        line + b"garbage\n",
        line + b"\0\0\n",
        line + _line(number + 50) + b"\n",
        b"garbage" + line + b"\n",
        b"\0" + line + b"\n",
        _spread(number) + b"\n",
        _spread(number) + b" and more\n",
        line[: line.index(b'"message":') + 10] + b"\n",
        line[:60] + b"\n",
        b"[\n" + line + b"\n]\n",
        b'{"a":[\n' + line + b"\n",
        b"\xef\xbb\xbf" + line + b"\n",
        b"42\n",
    ]


logs = st.lists(st.integers(0, 16), min_size=1, max_size=7).map(
    lambda kinds: b"".join(_pieces(number)[kind] for number, kind in enumerate(kinds))
)
cuts = st.lists(st.floats(0, 1), max_size=6)


@contextmanager
def _slices(data: bytes, places: list[float]) -> Iterator[list[bytes]]:
    ends = sorted({*(round(place * len(data)) for place in places), len(data)})
    yield [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


class _Readers:
    """Everything that reads a log in steps."""

    def __init__(self, place: Path) -> None:
        self.remote = MemoryRemote()
        self.machine = Machine(place, lambda: self.remote)
        self.log = self.machine.home / "projects" / "-srv-app" / f"{ONE}.jsonl"
        self.log.parent.mkdir(parents=True)
        self.log.write_bytes(b"")
        self.follower, self.followed = Follower(self.log), list[Entry | Damage]()
        self.cache = ConversationCache()
        self.index = IndexDatabase(place / "index.sqlite")

    def write(self, data: bytes, number: int) -> None:
        with self.log.open("ab") as log:
            log.write(data)
        os.utime(self.log, ns=(number * 10**9, number * 10**9))

    def read_on(self) -> None:
        while news := self.follower.look():
            assert not any(isinstance(item, Reset) for item in news)
            self.followed += [item for item in news if not isinstance(item, Reset)]
        self.points = self.cache.get(self.log).points.points
        refresh(self.index, [self.machine.home])
        self.machine.push()


def _told(entry: Entry) -> tuple[int, str | None, bytes]:
    return entry.offset, entry.uuid, entry.raw.strip()


def _without_lengths(index: Projection) -> Projection:
    """A line that was read before its newline came is a byte shorter; that is all it may say less."""
    files = [(*row[:9], *row[11:]) for row in index.files]
    return index._replace(files=files, messages=[(*row[:2], *row[3:]) for row in index.messages])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(data=_line(0) + _line(1) + b"\n" + _line(2) + b"\n", places=[0.2, 0.33, 0.34, 0.5])
@example(data=_line(0) + b"\n" + _line(1), places=[len(_line(0)) / (len(_line(0) + _line(1)) + 1)])
@given(data=logs, places=cuts)
def test_slices_add_up_to_what_one_read_says(data: bytes, places: list[float]) -> None:
    """Entries, the graph, the index with its costs, and the remote's copy."""
    with tempfile.TemporaryDirectory(dir=memory()) as place, _slices(data, places) as slices:
        readers = _Readers(Path(place))
        for number, piece in enumerate(slices):
            readers.write(piece, number + 1)
            readers.read_on()

        once = [_told(entry) for entry in readable_entries(LogReader(readers.log))]
        assert once == [_told(entry) for item in readers.followed if (entry := readable(item)) is not None]

        nodes = [(one.uuid, one.offset) for one in LogGraph(readers.log).graph.nodes.values()]
        seen = {one.uuid: one.offset for one in readers.points if isinstance(one, Node)}
        assert dict(nodes) == seen

        fresh = IndexDatabase(":memory:")
        refresh(fresh, [readers.machine.home])
        whole, grown = _without_lengths(projection(fresh)), _without_lengths(projection(readers.index))
        assert ([], []) == (differences(whole, grown), faults(readers.index))

        copy = Path(place, "copy.jsonl")
        sent_bytes = remote_log(readers.remote, ONE) if list(readers.remote.sessions()) else b""
        # What is pending here may decide about lines before it, and is not there.
        copy.write_bytes(sent_bytes + b"x\n")
        sent = [_told(entry)[1:] for entry in readable_entries(LogReader(copy))]
        assert [one[1:] for one in once] == sent


@given(data=logs, places=cuts)
def test_every_byte_is_in_an_entry_in_damage_or_pending(data: bytes, places: list[float]) -> None:
    """Read at once or followed in slices, items cover the log without overlap; between them are only blanks."""
    with tempfile.TemporaryDirectory(dir=memory()) as place, _slices(data, places) as slices:
        log = Path(place, "log.jsonl")
        log.write_bytes(b"")
        followed: list[Entry | Damage] = []
        with Follower(log) as follower:
            for piece in slices:
                with log.open("ab") as end:
                    end.write(piece)
                followed += [item for item in follower.look() if not isinstance(item, Reset)]
        for items in (list(LogReader(log)), followed):
            position = 0
            for item in items:
                assert position <= item.offset
                assert not data[position : item.offset].strip()
                own = item.raw if isinstance(item, Entry) else item.data
                assert own == data[item.offset : item.end].removesuffix(b"\n")
                position = item.end
            pending = client_lines(data)[1]
            assert not data[position:pending].strip()
