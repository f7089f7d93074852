"""Whatever happens to the logs and to a refresh, the index ends as if it were built anew (goal G13).

Random histories over two homes: appends, torn tails, forks, agents of both layouts, replays, truncation,
replacement, rewriting in place, moves, deletion, refreshes that are disturbed or die. After every refresh
the index is compared row for row with a fresh one, its sums with a reference that knows nothing of
recollect, and its invariants are checked.
"""

from __future__ import annotations

import errno
import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from recollect.errors import StorageError
from recollect.index import extraction
from recollect.index import refresh as indexing
from recollect.index.database import IndexDatabase
from recollect.index.ingest import Ingest
from recollect.index.refresh import FirstNeed, refresh
from recollect.store.logs.reader import OpenLog
from tests.client_parser import client_lines
from tests.index import reference
from tests.index.lines import responses, texts, turns
from tests.index.projection import counting, differences, faults, messages, projection, rows, totals
from tests.index.world import SESSIONS, World, encoded, forked
from tests.memory import memory

TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
few = st.integers(0, 3)
ANY = st.integers(0, 15)


class Killed(Exception):
    """The process died here."""


@contextmanager
def meddling(method: str, at: int, action: Callable[[], None]) -> Iterator[None]:
    """Do something before the n-th call of one of Ingest's methods."""
    calls = 0
    original = getattr(Ingest, method)

    def guarded(self: Ingest, *arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at + 1:
            action()
        return original(self, *arguments, **named)

    with mock.patch.object(Ingest, method, guarded):
        yield


def killed() -> None:
    raise Killed


def deed(**arguments: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Any]:
    """A rule that changes logs. As often as not a refresh follows at once."""

    made: Any = rule  # its overloads know nothing of keywords that come from outside

    def decorated(method: Callable[..., None]) -> Any:
        @functools.wraps(method)
        def done(self: IndexMachine, is_refreshed: bool, **drawn: Any) -> None:
            method(self, **drawn)
            if is_refreshed:
                self._refresh()
                self._settle()

        return made(is_refreshed=st.booleans(), **arguments)(done)

    return decorated


REST_OF_A_LINE = [b"\n", b"\r\n", b"  \n", b"rest\n", b'{"uuid": \n', b'{"uuid": "torn', b"\0\0\n"]


@pytest.mark.parametrize("rest", [*REST_OF_A_LINE, encoded([{"type": "tag", "tag": "other"}])])
def test_a_last_value_that_was_read_before_the_rest_of_its_line_came_is_what_it_would_be_with_it(
    rest: bytes, tmp_path: Path
) -> None:
    """Both indexes hold what the client reads of the line; found by the machine below, as a length that differed."""
    world, index = World(tmp_path), IndexDatabase(tmp_path / "index.sqlite")
    log = world.session(0, 0, 0)
    line = {"type": "user", "uuid": SESSIONS[1], "message": {"role": "user", "content": "alpha"}}
    world.append(log, encoded([line])[:-1])
    refresh(index, world.homes)
    world.write_over(log, log.read_bytes() + rest)
    refresh(index, world.homes)
    fresh = IndexDatabase(":memory:")
    refresh(fresh, world.homes)
    assert [] == differences(projection(fresh), projection(index))
    assert messages(index)
    fresh.close()
    index.close()


class IndexMachine(RuleBasedStateMachine):
    """Homes, an index that is kept up to date, and what it should hold of logs that are gone."""

    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp(prefix="recollect-index-", dir=memory()))
        self.world = World(self.base)
        self.index = IndexDatabase(self.base / "index.sqlite")
        self.kept: dict[str, bytes] = {}  # by path, what the index has read of each log that was there
        self.inodes: dict[str, int] = {}
        self.gone: dict[str, bytes] = {}

    def teardown(self) -> None:
        self.index.close()
        shutil.rmtree(self.base)

    # --- what happens to logs ---------------------------------------------------------------

    @deed(home=few, project=few, session=few, lines=turns())
    def append(self, home: int, project: int, session: int, lines: list[Any]) -> None:
        self.world.append(self.world.session(home, project, session), encoded(lines))

    @deed(number=ANY, lines=turns())
    def append_to_some(self, number: int, lines: list[Any]) -> None:
        if (log := self.world.some_log(number)) is not None:
            self.world.append(log, encoded(lines))

    @deed(home=few, project=few, session=few, agent=few, nested=st.booleans(), lines=turns(sidechain=True))
    def agent_speaks(
        self, home: int, project: int, session: int, agent: int, nested: bool, lines: list[Any]
    ) -> None:
        self.world.append(self.world.agent(home, project, session, agent, nested=nested), encoded(lines))

    @deed(number=ANY, home=few, project=few, session=few, agent=few, nested=st.booleans())
    def agent_replays(
        self, number: int, home: int, project: int, session: int, agent: int, nested: bool
    ) -> None:
        """A side question: the parent's answers again, in an agent's log, under another request id."""
        if (log := self.world.some_log(number)) is not None:
            data = log.read_bytes()
            data = data[: data.rfind(b"\n") + 1]
            again = data.replace(b'"requestId": "r1"', b'"requestId": "r9"')
            again = again.replace(b'"isSidechain": false', b'"isSidechain": true')
            self.world.append(self.world.agent(home, project, session, agent, nested=nested), again)

    @deed(number=ANY, home=few, project=few, session=few, says_so=st.booleans())
    def fork(self, number: int, home: int, project: int, session: int, says_so: bool) -> None:
        target = self.world.session(home, project, session)
        if (log := self.world.some_log(number)) is not None and not target.exists():
            self.world.append(target, forked(log.read_bytes(), SESSIONS[session], says_so=says_so))

    @deed(number=ANY, lines=responses(sidechain=False), share=st.floats(0, 1))
    def tear(self, number: int, lines: list[Any], share: float) -> None:
        if (log := self.world.some_log(number)) is not None:
            self.world.append_torn(log, encoded(lines[:1]), share)

    @deed(number=ANY)
    def complete(self, number: int) -> None:
        if (log := self.world.some_log(number)) is not None:
            self.world.complete_torn(log)

    @deed(number=ANY, share=st.floats(0, 1))
    def truncate(self, number: int, share: float) -> None:
        if (log := self.world.some_log(number)) is not None:
            data = log.read_bytes()
            self.world.write_over(log, data[: int(len(data) * share)])

    @deed(number=ANY, lines=turns(), is_larger=st.booleans(), same_time=st.booleans())
    def replace(self, number: int, lines: list[Any], is_larger: bool, same_time: bool) -> None:
        """Another file by rename, with the same beginning and end as far as they are compared."""
        if (log := self.world.some_log(number)) is not None:
            data = log.read_bytes()
            middle = data[4_200:-300].replace(b"filler", b"fodder").replace(b"alpha", b"gamma")
            data = data[:4_200] + middle + data[4_200:][len(middle) :]
            self.world.replace(log, data + (encoded(lines) if is_larger else b""), same_time=same_time)

    @deed(
        number=ANY,
        words=st.tuples(*[st.sampled_from([b"alpha", b"gamma", b"delta", b"m1", b"m2", b"r1", b"r2"])] * 2),
    )
    def rewrite_in_place(self, number: int, words: tuple[bytes, bytes]) -> None:
        """Other bytes of the same length in the same file."""
        log = self.world.some_log(number)
        if log is not None and len(words[0]) == len(words[1]):
            self.world.write_over(log, log.read_bytes().replace(*words))

    @deed(number=ANY, home=few, project=few, session=few)
    def move_session(self, number: int, home: int, project: int, session: int) -> None:
        """To another project or home, or to another name."""
        if (log := self.world.some_log(number)) is not None:
            self.world.move(log, self.world.session(home, project, session))

    @deed(number=ANY, home=few, project=few, session=few, agent=few, nested=st.booleans())
    def move_agent(
        self, number: int, home: int, project: int, session: int, agent: int, nested: bool
    ) -> None:
        log = self.world.some_log(number)
        if log is not None and log.name.startswith("agent-"):
            self.world.move(log, self.world.agent(home, project, session, agent, nested=nested))

    @deed(home=few, project=few, to=few)
    def move_project(self, home: int, project: int, to: int) -> None:
        source = self.world.session(home, project, 0).parent
        other = self.world.session(to, project, 0).parent
        if source.exists() and not other.exists():
            source.rename(other)

    @deed(number=ANY, other=ANY)
    def swap(self, number: int, other: int) -> None:
        """Two logs change names."""
        one, two = self.world.some_log(number), self.world.some_log(other)
        if one is not None and two is not None and one != two:
            between = self.base / "between"
            one.rename(between)
            two.rename(one)
            between.rename(two)

    @deed(number=ANY)
    def delete(self, number: int) -> None:
        if (log := self.world.some_log(number)) is not None:
            self.world.delete(log)

    @deed(number=ANY)
    def touch(self, number: int) -> None:
        if (log := self.world.some_log(number)) is not None:
            self.world.touch(log)

    @deed(home=few, project=few, session=few, name=few, text=texts)
    def tool_output(self, home: int, project: int, session: int, name: int, text: str) -> None:
        path = self.world.output(home, project, session, name)
        self.world.replace(path, text.encode())

    @deed(home=few, project=few, session=few, name=few)
    def remove_output(self, home: int, project: int, session: int, name: int) -> None:
        self.world.output(home, project, session, name).unlink(missing_ok=True)

    # --- what happens to the index ----------------------------------------------------------

    @rule()
    def refresh(self) -> None:
        self._refresh()
        self._settle()

    @rule()
    def refresh_in_one_frame(self) -> None:
        """Frames as large as in life: where a log is cut does not show."""
        refresh(self.index, self.world.homes)
        self._settle()

    @rule()
    def refresh_as_a_bulk_load(self) -> None:
        """The way of a first build, with its short cuts, at any time."""
        with (
            mock.patch.object(indexing, "_WORTH_A_PROCESS", -1),
            mock.patch.object(indexing, "cores", return_value=1),
        ):
            self._refresh()
        self._settle()

    @rule(room=st.sampled_from([1, 1 << 20]))
    def first_build_that_stops(self, room: int) -> None:
        """Log by log from the newest one, stopped after it; also where the numbers of its lines do not suffice."""
        self.index.connection.execute("DELETE FROM meta WHERE name = 'complete'")
        with (
            mock.patch.object(indexing, "_WORTH_A_PROCESS", -1),
            mock.patch.object(indexing, "_FIRST_BATCHES", ()),
            mock.patch.object(indexing, "_BATCH", 1),
            mock.patch.object(indexing, "_LEAST_LINE", room),
            mock.patch.object(indexing, "_SPARE_LINES", 1),
            mock.patch.object(indexing, "cores", return_value=1),
        ):
            refresh(self.index, self.world.homes, need=FirstNeed(seconds=0.0))
            self._refresh()
        self._settle()

    @rule(number=ANY)
    def refresh_that_cannot_read(self, number: int) -> None:
        """A disk that refuses one log costs nothing but that log, and only until the next refresh."""
        unreadable = self.world.some_log(number)

        def refusing(path: Path) -> OpenLog:
            if path == unreadable:
                raise StorageError(
                    "open", path, OSError(errno.EIO, "Input/output error"), hint="look at the disk"
                )
            return OpenLog(path)

        with mock.patch.object(extraction, "OpenLog", refusing):
            self._refresh()
        self._notice_what_is_gone(unreadable)
        self._notice_what_was_read()
        assert [] == faults(self.index)

    @rule(at=st.integers(0, 6))
    def refresh_killed_while_reading(self, at: int) -> None:
        """Dies between two frames; what was committed stays."""
        try:
            with meddling("apply", at, killed):
                self._refresh()
        except Killed:
            self._reopen()
        self._notice_what_is_gone()
        self._notice_what_was_read()
        assert [] == faults(self.index)

    @rule(method=st.sampled_from(["add_file", "seen", "moved", "forget"]), at=st.integers(0, 2))
    def refresh_killed_while_comparing(self, method: str, at: int) -> None:
        """Dies before anything was committed, or does not meet that call at all."""
        try:
            with meddling(method, at, killed):
                self._refresh()
        except Killed:
            self._reopen()
        else:
            self._notice_what_is_gone()
            self._notice_what_was_read()
        assert [] == faults(self.index)

    @rule(at=st.integers(0, 4), number=ANY, lines=turns())
    def refresh_disturbed(self, at: int, number: int, lines: list[Any]) -> None:
        """A client appends while the refresh is reading."""
        log = self.world.some_log(number)

        def disturb() -> None:
            if log is not None:
                self.world.append(log, encoded(lines))

        with meddling("apply", at, disturb):
            self._refresh()
        self._notice_what_is_gone()
        self._notice_what_was_read()
        assert [] == faults(self.index)

    @rule()
    def reopen(self) -> None:
        self._reopen()

    def _reopen(self) -> None:
        self.index.close()
        self.index = IndexDatabase(self.base / "index.sqlite")

    def _refresh(self) -> None:
        # Small frames and a commit after each, so that short logs take many of both.
        with (
            mock.patch.object(extraction, "_FRAME_LINES", 2),
            mock.patch.object(indexing, "_BULK_COMMIT", 1),
        ):
            refresh(self.index, self.world.homes)

    # --- what should be there ---------------------------------------------------------------

    def _notice_what_is_gone(self, unreadable: Path | None = None) -> None:
        """By the definition: a log that is no longer there, and did not move, is gone and still costs.

        That a log moved can only be seen by reading it.
        """
        there = {str(log): log for log in self.world.logs()}
        new = {path for path in there if path not in self.kept and path != str(unreadable)}
        for path in [path for path in self.kept if path not in there]:
            data, inode = self.kept.pop(path), self.inodes.pop(path)
            if not any(self._is_moved(path, inode, data, there[other]) for other in new):
                self.gone[path] = data
        for path in there:
            self.gone.pop(path, None)

    def _is_moved(self, path: str, inode: int, data: bytes, log: Path) -> bool:
        is_same_role = Path(path).name.startswith("agent-") == log.name.startswith("agent-")
        return (
            is_same_role and bool(data) and log.stat().st_ino == inode and log.read_bytes().startswith(data)
        )

    def _notice_what_was_read(self) -> None:
        for path, consumed in rows(
            self.index, "SELECT path, consumed FROM files WHERE role < 2 AND NOT gone"
        ):
            self.kept[path] = Path(path).read_bytes()[:consumed]
            self.inodes[path] = os.stat(path).st_ino

    def _settle(self) -> None:
        self._notice_what_is_gone()
        self._notice_what_was_read()
        self._compare()

    def _compare(self) -> None:
        whole = {str(log): log.read_bytes() for log in self.world.logs()}
        assert {path: data[: client_lines(data)[1]] for path, data in whole.items()} == self.kept
        fresh = IndexDatabase(":memory:")
        refresh(fresh, self.world.homes)
        assert [] == differences(projection(fresh), projection(self.index))
        assert [] == faults(self.index)
        assert [] == faults(fresh)
        assert reference.totals(self.kept) == totals(fresh)
        assert reference.totals({**self.gone, **self.kept}) == totals(self.index)
        if not self.gone:
            assert counting(fresh) == counting(self.index)
        fresh.close()


IndexMachine.TestCase.settings = settings(
    max_examples=1_000 if TORTURE else 20, stateful_step_count=40 if TORTURE else 25
)
TestIncrementalIndex = IndexMachine.TestCase
TestIncrementalIndex.__doc__ = "An index that was kept up to date equals one that is built anew, row for row."
