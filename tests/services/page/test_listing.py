"""The list of a page names the sessions that the home itself names."""

from __future__ import annotations

from pathlib import Path

from recollect.services.homes import Home
from recollect.services.page.listing import WalkedSession, listed, mark_of
from recollect.services.session import Session
from tests.small_home import ONE, TALK, TWO, lines, prompt, put


def _told(sessions: list[Session]) -> list[tuple[object, ...]]:
    return sorted((one.id, one.session_id, str(one.path), one.file, one.title, one.cwd) for one in sessions)


def test_every_session_of_a_home_is_listed(shared: Path) -> None:
    """Ids, paths, sizes, times, titles and directories: those of the tolerant walk, over all samples."""
    homes = sorted(path.parent for path in (shared / "samples").rglob("projects"))
    home = Home(*homes)
    sessions = listed(home.homes, {})
    assert len(sessions) > 200
    assert _told(sessions) == _told(list(home.sessions()))
    assert [one.file.mtime_ns for one in sessions] == sorted(
        (mark_of(one)[2] for one in sessions), reverse=True
    )


def test_a_log_with_a_name_of_its_own_is_listed(tmp_path: Path) -> None:
    """Agents' logs are no sessions; a log that no client named is one, by its name."""
    put(tmp_path, ONE, TALK)
    project = next((tmp_path / "projects").iterdir())
    (project / "copy of it.jsonl").write_bytes(lines(TALK))
    (project / "agent-1.jsonl").write_bytes(lines(TALK))
    found = {one.id: one.session_id for one in listed(Home(tmp_path).homes, {})}
    assert found == {ONE: ONE, "copy of it": None}


def test_what_did_not_change_is_the_same_object(tmp_path: Path) -> None:
    """Only the log that grew is looked at anew."""
    put(tmp_path, ONE, TALK)
    put(tmp_path, TWO, TALK, cwd="/srv/b")
    first = {one.seen.path: one for one in listed(Home(tmp_path).homes, {}) if isinstance(one, WalkedSession)}
    grown = next(path for path in first if TWO in path)
    with Path(grown).open("ab") as file:
        file.write(lines([prompt(5, 4, "Q3")]))
    again = {mark_of(one)[0]: one for one in listed(Home(tmp_path).homes, first)}
    assert {path: again[path] is first[path] for path in first} == {path: path != grown for path in first}
    assert mark_of(again[grown])[1] == Path(grown).stat().st_size
