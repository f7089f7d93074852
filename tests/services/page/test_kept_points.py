"""A large log that was read once opens from what was kept of it, and shows exactly what the log itself would."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from recollect.errors import RecollectError
from recollect.services.homes import Home
from recollect.services.page.conversation import ConversationView, position_of, talk_of
from recollect.services.page.log import OpenSessions, PageSession
from recollect.services.page.messages import MessageWindow, map_document
from recollect.services.session import Session
from recollect.storage.logs import log_graph
from recollect.storage.logs.conversation_cache import ConversationCache
from recollect.storage.logs.kept_points import PointsCache
from recollect.storage.logs.log_graph import LogGraph
from recollect.storage.logs.reader import OpenLog
from tests.made_corpora import make
from tests.small_home import ONE, TALK, lines, prompt, put, reply, said, uuid_of


@pytest.fixture(autouse=True)
def _worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short logs are kept too."""
    monkeypatch.setattr(log_graph, "WORTH_KEEPING", 1)


@pytest.fixture
def kept(tmp_path: Path) -> PointsCache:
    """A place for what is kept."""
    return PointsCache(tmp_path / "points")


def _read(path: Path, kept: PointsCache | None) -> LogGraph:
    """A log that was read to its end, and kept where that is worth it."""
    log = LogGraph(path, _kept=kept)
    log.read_on()
    log.keep()
    return log


def _covered(path: Path, kept: PointsCache) -> int:
    with OpenLog(path) as log:
        return kept.covers(log)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The log of four messages."""
    put(tmp_path / "home", ONE, TALK)
    return next((tmp_path / "home").rglob(f"{ONE}.jsonl"))


def test_what_is_kept_is_what_was_read(log: Path, kept: PointsCache) -> None:
    """Points, their order, the places of lines in the user's name, and where reading ended."""
    log.write_bytes(lines([*TALK, {"type": "last-prompt", "leafUuid": "x"}, prompt(5, 4, "Q", isMeta=True)]))
    first = _read(log, kept).points
    again = LogGraph(log, _kept=kept)
    again.read_on()
    assert first == again.points
    assert len(first.meta) == 1
    assert first.end == log.stat().st_size == _covered(log, kept)


def test_no_text_is_kept(log: Path, kept: PointsCache, tmp_path: Path) -> None:
    """Neither the first words of a log nor the last nor those between; ids are."""
    talk = [prompt(number, number - 1 or None, f"geheim {number}") for number in range(1, 40)]
    log.write_bytes(lines(talk))
    _read(log, kept)
    (file,) = (tmp_path / "points").iterdir()
    assert b"geheim" not in file.read_bytes()
    assert uuid_of(39).encode() in file.read_bytes()


def test_what_was_appended_is_read_on_top(log: Path, kept: PointsCache) -> None:
    """Of a log that grew, only the new part is read: the kept part is that of before, the whole that of now."""
    end = _read(log, kept).points.end
    with log.open("ab") as file:
        file.write(lines([prompt(5, 4, "Q3")]))
    assert _covered(log, kept) == end
    grown = LogGraph(log, _kept=kept)
    assert list(grown.graph.nodes) == list(LogGraph(log).graph.nodes)
    assert len(grown.graph.nodes) == 5


def _replaced(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(path.read_bytes().replace(b"Q1", b"Q9"))
    other.replace(path)


def _rewritten(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"Q1", b"Q9"))
    os.utime(path, ns=(1, 1))


def _shortened(path: Path) -> None:
    path.write_bytes(lines(TALK[:2]))


def _another_start(path: Path) -> None:
    path.write_bytes(lines([prompt(7, None, "Q1"), *TALK[1:], prompt(5, 4, "Q3")]))


@pytest.mark.parametrize("change", [_replaced, _rewritten, _shortened, _another_start])
def test_another_log_under_the_name_is_read_anew(
    log: Path, kept: PointsCache, change: Callable[[Path], None]
) -> None:
    """Another file, the same size at another time, a shorter one, other bytes at the start: nothing of it counts."""
    _read(log, kept)
    change(log)
    assert _covered(log, kept) == 0
    assert list(LogGraph(log, _kept=kept).graph.nodes) == list(LogGraph(log).graph.nodes)


def test_a_damaged_file_is_none(log: Path, kept: PointsCache, tmp_path: Path) -> None:
    """A flipped bit anywhere behind the header, a cut, nonsense: the log is read instead."""
    whole = _read(log, kept).points
    (file,) = (tmp_path / "points").iterdir()
    sound = file.read_bytes()
    start = sound.index(b"\n") + 1
    spoiled = [
        sound[:place] + bytes([sound[place] ^ 4]) + sound[place + 1 :]
        for place in range(start, len(sound), 7)
    ]
    for data in (*spoiled, sound[:-1], sound[:start], b"", b"\x00" * 50, b"[]\n", b"\xff\n"):
        file.write_bytes(data)
        with OpenLog(log) as opened:
            assert kept.read(opened) is None
        assert _read(log, None).points == whole


def test_a_place_that_cannot_be_written_is_no_failure(log: Path, tmp_path: Path) -> None:
    """A file where the directory should be: nothing is kept, everything is read."""
    (tmp_path / "points").write_text("not a directory")
    kept = PointsCache(tmp_path / "points")
    assert len(_read(log, kept).graph.nodes) == 4
    assert _covered(log, kept) == 0


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    """Of three, with room for two, the one kept first is gone."""
    kept = PointsCache(tmp_path / "points", most_files=2)
    logs = [tmp_path / f"{name}.jsonl" for name in "abc"]
    for number, one in enumerate(logs):
        one.write_bytes(lines(TALK))
        _read(one, kept)
        newest = max((tmp_path / "points").iterdir(), key=lambda file: file.stat().st_mtime_ns)
        os.utime(newest, ns=(number, number))
    assert [bool(_covered(one, kept)) for one in logs] == [False, True, True]


def test_a_small_log_is_not_kept(log: Path, kept: PointsCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under four megabytes reading is as fast."""
    monkeypatch.setattr(log_graph, "WORTH_KEEPING", 4 << 20)
    _read(log, kept)
    assert _covered(log, kept) == 0


# ---- the same answers ------------------------------------------------------------------------------------


def _answers(session: PageSession) -> bytes:
    """First window, last window, map, and where a line in the middle is shown; refusals by their words."""
    try:
        window, total = MessageWindow(session, ConversationView()), len(talk_of(session, ConversationView()))
        middle = talk_of(session, ConversationView()).groups[total // 2][0].uuid if total else None
        found: object = (
            window.document(0, 25),
            window.document(-25, 25),
            map_document(session, ConversationView()),
            map_document(session, ConversationView(whole=True)),
            position_of(session, middle, None, None) if middle else None,
            session.branches(),
        )
    except RecollectError as problem:
        found = str(problem)
    return msgspec.json.encode(found, enc_hook=str)


def _compared(sessions: list[Session], kept: PointsCache) -> int:
    """How many sessions gave the same answers from what was kept as from the log."""
    for session in sessions:
        _read(session.path, kept)
        from_log = _answers(PageSession(session))
        assert _covered(session.path, kept) > 0 or not session.file.size
        assert from_log == _answers(OpenSessions(ConversationCache(_kept=kept)).opened(session)), session.path
    return len(sessions)


@pytest.mark.parametrize(("where", "least"), [("samples", 200), ("corpus", 30)])
def test_every_real_session_shows_the_same(shared: Path, kept: PointsCache, where: str, least: int) -> None:
    """All sessions of the homes that clients wrote."""
    homes = sorted(path.parent for path in (shared / where).rglob("projects"))
    sessions = [one for home in homes for one in Home(home).sessions()]
    assert _compared(sessions, kept) >= least


@pytest.mark.parametrize("seed", [1, 2])
def test_every_made_session_shows_the_same(
    shared: Path, tmp_path: Path, kept: PointsCache, seed: int
) -> None:
    """Made homes, with forks, agents, damage and cut last lines."""
    made = make(shared, tmp_path / "made", seed)
    assert _compared(list(Home(made.home).sessions()), kept) >= 5


def test_a_long_answer_in_several_lines_shows_the_same(tmp_path: Path, kept: PointsCache) -> None:
    """Lines of one response are grouped by what is kept of their message ids."""
    talk = [prompt(1, None, "Q"), reply(2, 1, said("a"), answer="m"), reply(3, 2, said("b"), answer="m")]
    put(tmp_path / "home", ONE, talk)
    (session,) = Home(tmp_path / "home").sessions()
    assert _compared([session], kept) == 1
    assert len(talk_of(OpenSessions(ConversationCache(_kept=kept)).opened(session), ConversationView())) == 2
