"""A file that is not as expected hides no session, stops no pass, and is told: thousands of changed homes."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import zstandard

import recollect
import recollect.errors
from recollect.agents.mirror import AgentMirror
from recollect.agents.mirror_files import originals
from recollect.cli.main import main
from tests.agents import mutations, tiny_homes
from tests.agents.mutations import MARK, NUMBER, Mutation
from tests.agents.samples import ALL, tree_state

SETTLED = 1_700_000_000  # no one is still writing
Build = Callable[[Path], Path]
FILES: dict[str, tuple[str, Build]] = {
    "codex": ("codex", tiny_homes.codex),
    "codex-bare": ("codex", tiny_homes.codex_bare),
    "gemini-json": ("gemini", tiny_homes.gemini_document),
    "gemini-jsonl": ("gemini", tiny_homes.gemini_lines),
    "qwen": ("qwen", tiny_homes.qwen),
}
# Places whose values a person or a model chose: any type is expected there.
FREE = ("args", "arguments", "input", "resultDisplay", "action.query", "response")


def sampled(changes: Iterable[Mutation], count: int, seed: int = 20) -> list[Mutation]:
    found = list(changes)
    return random.Random(seed).sample(found, min(count * (20 if ALL else 1), len(found)))


class Mirrored:
    """A mirror and what its logs say."""

    def __init__(self, agent: str, home: Path, data: Path) -> None:
        self.mirror = AgentMirror(agent, home, data)
        self.mirror.refresh()
        self.logs = {
            str(log.relative_to(self.mirror.root)): log.read_bytes()
            for log in self.mirror.root.rglob("*.jsonl")
        }
        self.lines = [json.loads(line) for log in self.logs.values() for line in log.splitlines()]
        self.problems = [problem for problem in self.mirror.problems if not problem.is_unknown]
        self.unknown = [line for line in self.lines if str(line["type"]).startswith(f"{agent}:")]

    def untouched(self, name: str) -> dict[str, bytes]:
        found = {path: data for path, data in self.logs.items() if name in path}
        assert found
        return found

    def said(self) -> str:
        """Everything but the originals and their marks."""
        return json.dumps(
            [
                {key: value for key, value in line.items() if not key.startswith(("original", "mark"))}
                for line in self.lines
            ]
        )


@pytest.mark.parametrize("case", FILES)
@pytest.mark.parametrize("kind", ["records", "files"])
def test_a_changed_file_hides_nothing(case: str, kind: str, tmp_path: Path) -> None:
    agent, build = FILES[case]
    path, is_document = build(tmp_path / "home"), case == "gemini-json"
    data = path.read_bytes()
    before = Mirrored(agent, tmp_path / "home", tmp_path / "before")
    assert not before.unknown
    assert not before.problems
    changes = (mutations.of_records if kind == "records" else mutations.of_files)(
        data, is_document=is_document
    )
    for number, change in enumerate(sampled(changes, 60)):
        path.write_bytes(change.data)
        os.utime(path, (SETTLED, SETTLED))
        own = tmp_path / "data"
        if number % 3 == 0:  # as a pass finds it that knows the file as it was
            shutil.copytree(tmp_path / "before", own)
        try:
            judged(Mirrored(agent, tmp_path / "home", own), before, path, change, is_grown=number % 3 == 0)
        except Exception as problem:
            raise AssertionError(f"{case}: {change.name}: {problem!r}") from problem
        shutil.rmtree(own)


def judged(now: Mirrored, before: Mirrored, path: Path, change: Mutation, *, is_grown: bool) -> None:
    """The other session is as it was; this one is listed with its bytes, or a problem names its file."""
    assert now.untouched(tiny_homes.UNTOUCHED) == before.untouched(tiny_homes.UNTOUCHED)
    if now.problems:
        assert str(path) in {problem.path for problem in now.problems}
        return
    assert len(now.logs) >= len(before.logs)
    assert change.data in kept_of(now, path)
    if is_grown:
        for name, log in before.logs.items():
            assert now.logs[name].startswith(log)
    is_free = any(place in change.name for place in FREE)
    if change.is_told and not is_grown and not is_free and now.said() != before.said():
        assert now.unknown or MARK in now.said() or str(NUMBER) in now.said()


@pytest.mark.parametrize("case", FILES)
def test_a_file_in_another_format_hides_nothing(case: str, tmp_path: Path) -> None:
    """Several changes at once, also for a pass that knows the file as it was. A second pass finds nothing to do."""
    agent, build = FILES[case]
    home, own = tmp_path / "home", tmp_path / "data"
    path, is_document = build(home), case == "gemini-json"
    data = path.read_bytes()
    before = Mirrored(agent, home, tmp_path / "before")
    chance = random.Random(case)
    for number in range(600 if ALL else 12):
        new = mutations.wild(data, chance, is_document=is_document)
        path.write_bytes(new)
        os.utime(path, (SETTLED, SETTLED))
        if number % 3 == 0:
            shutil.copytree(tmp_path / "before", own)
        now = Mirrored(agent, home, own)
        where = f"{case} {number}: {new!r}"
        assert now.untouched(tiny_homes.UNTOUCHED) == before.untouched(tiny_homes.UNTOUCHED), where
        if now.problems:
            assert str(path) in {problem.path for problem in now.problems}, where
        else:
            assert len(now.logs) >= len(before.logs), where
            assert new in kept_of(now, path), where
        assert Mirrored(agent, home, own).logs == now.logs, where
        if number % 5 == 0:
            counts = recollect.Home(home, data=own, index=False).check().summary.by_code
            assert unknown_in(counts) == len(now.unknown), where
        shutil.rmtree(own)


def unknown_in(counts: dict[str, int]) -> int:
    """Records that are kept and not understood, as ``check`` counts them."""
    return counts.get("unknown-type", 0) + counts.get("unreadable-record", 0)


def kept_of(now: Mirrored, path: Path) -> list[bytes]:
    """What each log has kept of a file."""
    source = path.relative_to(now.mirror.home).as_posix()
    logs = (originals(map(json.loads, log.splitlines())) for log in now.logs.values())
    return [b"".join(log.get(source, [])) for log in logs]


@pytest.mark.parametrize("case", FILES)
def test_a_changed_session_is_listed_and_counted(case: str, tmp_path: Path) -> None:
    """The same, asked as a person asks: messages, costs and what ``check`` counts."""
    agent, build = FILES[case]
    path, is_document = build(tmp_path / "home"), case == "gemini-json"
    data = path.read_bytes()
    before = told(tmp_path / "home", tmp_path / "before")
    for change in sampled(mutations.of_records(data, is_document=is_document), 4, seed=21):
        path.write_bytes(change.data)
        found = Mirrored(agent, tmp_path / "home", tmp_path / "data")
        now = told(tmp_path / "home", tmp_path / "data")
        assert now[tiny_homes.UNTOUCHED] == before[tiny_homes.UNTOUCHED], change.name
        assert len(now) >= len(before) or found.problems, change.name
        counts = (
            recollect.Home(tmp_path / "home", data=tmp_path / "data", index=False).check().summary.by_code
        )
        assert unknown_in(counts) == len(found.unknown), change.name
        shutil.rmtree(tmp_path / "data")


def told(home: Path, data: Path) -> dict[str, tuple[list[str], list[Any]]]:
    """Messages and calls of each session."""
    found = recollect.Home(home, data=data, index=False)
    calls: dict[str, list[Any]] = {}
    for one in found.responses():
        calls.setdefault(one.session or "", []).append((one.model, one.tokens))
    return {one.id: (spoken(one), calls.get(one.id, [])) for one in found.sessions()}


def spoken(session: recollect.Session) -> list[str]:
    try:
        return [message.text for message in session.conversation().messages]
    except recollect.errors.NotFound:
        return []  # nothing is left of what was said: it is listed all the same


def test_a_compressed_file_that_was_cut_is_named(tmp_path: Path) -> None:
    path = tiny_homes.codex_compressed(tmp_path / "home")
    data = path.read_bytes()
    before = Mirrored("codex", tmp_path / "home", tmp_path / "before")
    assert len(before.logs) == 2
    for end in range(0, len(data), 1 if ALL else 97):
        path.write_bytes(data[:end])
        now = Mirrored("codex", tmp_path / "home", tmp_path / "data")
        assert now.untouched(tiny_homes.UNTOUCHED) == before.untouched(tiny_homes.UNTOUCHED)
        assert [problem.path for problem in now.problems] == [str(path)], end
        path.write_bytes(data)
        whole = Mirrored("codex", tmp_path / "home", tmp_path / "data")
        assert whole.logs == before.logs
        assert not whole.problems
        shutil.rmtree(tmp_path / "data")


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_cannot_be_read_is_named(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent, build = FILES[case]
    path = build(tmp_path / "home")
    data = path.read_bytes()
    before = Mirrored(agent, tmp_path / "home", tmp_path / "before")
    for make in (make_directory, make_pipe):
        make(path)
        now = Mirrored(agent, tmp_path / "home", tmp_path / "data")
        assert now.untouched(tiny_homes.UNTOUCHED) == before.untouched(tiny_homes.UNTOUCHED)
        if make is make_pipe:
            assert [problem.path for problem in now.problems] == [str(path)]
            report = recollect.Home(tmp_path / "home", data=tmp_path / "data", index=False).check()
            assert [one.path for one in report.findings if one.code == "unreadable"] == [str(path)]
            words = ["--home", str(tmp_path / "home"), "--data", str(tmp_path / "data"), "--json"]
            assert main(words) in (0, 1)
            problems = json.loads(capsys.readouterr().out)["problems"]
            assert any(str(path) in problem for problem in problems)
        remove(path)
        path.write_bytes(data)
        assert Mirrored(agent, tmp_path / "home", tmp_path / "data").logs == before.logs
        shutil.rmtree(tmp_path / "data")


def make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def remove(path: Path) -> None:
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink()


@pytest.mark.parametrize(
    ("case", "directory"),
    [("codex", "sessions"), ("gemini-jsonl", "tmp/proj/chats"), ("qwen", "projects/-w/chats")],
)
def test_a_directory_that_is_a_file_is_named(case: str, directory: str, tmp_path: Path) -> None:
    agent, build = FILES[case]
    build(tmp_path / "home")
    before = Mirrored(agent, tmp_path / "home", tmp_path / "data")
    (tmp_path / "home" / directory).rename(tmp_path / "aside")
    (tmp_path / "home" / directory).write_text("no directory")
    now = Mirrored(agent, tmp_path / "home", tmp_path / "data")
    assert now.logs == before.logs
    assert [problem.path for problem in now.problems] == [str(tmp_path / "home" / directory)]
    (tmp_path / "home" / directory).unlink()
    (tmp_path / "aside").rename(tmp_path / "home" / directory)
    assert not Mirrored(agent, tmp_path / "home", tmp_path / "data").problems


def test_a_name_that_leads_out_of_the_mirror_is_another_name(tmp_path: Path) -> None:
    """What stands in a record is never a path of ours."""
    path = tiny_homes.codex(tmp_path / "home")
    path.write_text(path.read_text().replace(tiny_homes.CHANGED, f"../../../{MARK}"))
    now = Mirrored("codex", tmp_path / "home", tmp_path / "data")
    assert len(now.logs) == 2
    assert not list(tmp_path.rglob(f"*{MARK}*"))


def test_names_of_sessions_that_cannot_be_read_stop_nothing(tmp_path: Path) -> None:
    tiny_homes.codex(tmp_path / "home")
    index = tmp_path / "home" / "session_index.jsonl"
    index.unlink()
    index.mkdir()
    now = Mirrored("codex", tmp_path / "home", tmp_path / "data")
    assert len(now.logs) == 2
    assert now.problems


# ---- OpenCode --------------------------------------------------------------------------------------------

OTHER = "about ses_0b"


def log_of(mirrored: Mirrored, title: str) -> bytes:
    (found,) = (log for log in mirrored.logs.values() if title.encode() in log)
    return found


def test_a_changed_record_of_opencode_hides_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    tiny_homes.opencode_files(home)
    before = Mirrored("opencode", home, tmp_path / "before")
    assert not before.unknown
    files = [path for path in sorted(home.rglob("*.json")) if "0a" in str(path.relative_to(home))]
    cases = [
        (path, change)
        for path in files
        for make in (mutations.of_records, mutations.of_files)
        for change in make(path.read_bytes(), is_document=True)
    ]
    for path, change in random.Random(22).sample(cases, 2000 if ALL else 90):
        data = path.read_bytes()
        path.write_bytes(change.data)
        now = Mirrored("opencode", home, tmp_path / "data")
        where = f"{path.name}: {change.name}"
        assert log_of(now, OTHER) == log_of(before, OTHER), where
        assert len(now.logs) >= 2, where
        if now.problems:
            assert [problem.path for problem in now.problems] == [str(path)], where
        else:
            kept = originals(now.lines)[path.relative_to(home).as_posix()]
            assert kept == [change.data], where
            if change.is_told and now.said() != before.said() and not any(place in where for place in FREE):
                assert now.unknown or MARK in now.said() or str(NUMBER) in now.said(), where
        path.write_bytes(data)
        shutil.rmtree(tmp_path / "data")


def database_changes() -> Iterator[tuple[str, str]]:
    """Statements that a newer client, or a bad hand, may have run."""
    mine = {
        "session": "id",
        "message": "session_id",
        "part": "session_id",
        "todo": "session_id",
        "event": "aggregate_id",
    }
    for table, names in COLUMNS.items():
        yield "table", f"DROP TABLE {table}"
        yield "table", f"ALTER TABLE {table} RENAME TO {table}_v2"
        yield "new", f"CREATE TABLE {table}_more (id TEXT)"
        yield "new", f"ALTER TABLE {table} ADD COLUMN brand_new TEXT DEFAULT 'x'"
        for name in names:
            yield "column", f"ALTER TABLE {table} RENAME COLUMN {name} TO {name}_v2"
            if name != "id":
                yield "column", f"ALTER TABLE {table} DROP COLUMN {name}"
            for value in (
                "NULL",
                "x'00ff'",
                "'zz-mutant'",
                "987654321",
                "0.5",
                "'[1]'",
                "'{\"time\": 5}'",
                "-1",
                "1e308",
            ):
                yield "value", f"UPDATE {table} SET {name} = {value} WHERE {mine[table]} = 'ses_0a'"


def test_a_changed_database_hides_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    path = tiny_homes.opencode_database(home)
    data = path.read_bytes()
    before = Mirrored("opencode", home, tmp_path / "before")
    assert not before.unknown
    assert not before.mirror.problems
    changes = list(database_changes())
    for kind, statement in changes if ALL else random.Random(23).sample(changes, 60):
        path.write_bytes(data)
        with closing(sqlite3.connect(path)) as database:
            try:
                database.execute(statement)
            except sqlite3.IntegrityError:
                continue  # of two rows
            database.commit()
        now = Mirrored("opencode", home, tmp_path / "data")
        assert len(now.logs) >= 2, statement
        if kind == "value":
            assert log_of(now, OTHER) == log_of(before, OTHER), statement
        if kind in ("table", "column") and "todo" not in statement:
            assert "ask ses_0b" in str(now.lines) or now.mirror.problems or now.unknown, statement
        if kind == "new" and ("_more" in statement or not any(one in statement for one in ("todo", "event"))):
            assert [problem.is_unknown for problem in now.mirror.problems] == [True], statement
        shutil.rmtree(tmp_path / "data")


COLUMNS = {
    "session": ("id", "directory", "title", "version", "time_created", "parent_id"),
    "message": ("id", "session_id", "time_created", "data"),
    "part": ("id", "message_id", "session_id", "time_created", "data"),
    "todo": ("session_id", "content", "position"),
    "event": ("aggregate_id", "seq", "type", "data"),
}


@pytest.mark.parametrize(
    "change",
    [
        "part SET message_id = 12345",
        "part SET message_id = '[' || message_id || ']'",
        "message SET id = '[' || id || ']'",
    ],
)
def test_parts_that_name_no_message_hide_nothing_in_silence(change: str, tmp_path: Path) -> None:
    """Those of a message that was deleted are what a revert leaves; these are of a store that is not understood."""
    path = tiny_homes.opencode_database(tmp_path / "home")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(f"UPDATE {change}")
    now = Mirrored("opencode", tmp_path / "home", tmp_path / "data")
    assert "ask ses_0a" not in now.said()
    assert now.unknown


def test_parts_that_a_revert_left_are_no_surprise(tmp_path: Path) -> None:
    path = tiny_homes.opencode_database(tmp_path / "home")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.executescript("DELETE FROM message WHERE session_id = 'ses_0a'; DELETE FROM event")
    now = Mirrored("opencode", tmp_path / "home", tmp_path / "data")
    assert not now.unknown
    assert not now.problems


def test_a_database_after_another_migration_hides_nothing_in_silence(tmp_path: Path) -> None:
    """With and without a write-ahead log, closed, open and locked; of a mirror that knew it before nothing goes."""
    home, own = tmp_path / "home", tmp_path / "data"
    chance = random.Random(23)
    for number in range(400 if ALL else 20):
        shutil.rmtree(home, ignore_errors=True)
        path = tiny_homes.opencode_database(home)
        before = Mirrored("opencode", home, own)
        if number % 2:
            shutil.rmtree(own)
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute(f"PRAGMA journal_mode = {chance.choice(['WAL', 'DELETE'])}")
            done = []
            for statement in mutations.rebuilt(COLUMNS, chance):
                with contextlib.suppress(sqlite3.Error):
                    database.executescript(statement)
                    done.append(statement)
            if chance.random() < 0.3:
                database.execute("BEGIN EXCLUSIVE")
            state = tree_state(home)
            now = Mirrored("opencode", home, own)
            assert tree_state(home) == state, done
        is_whole = all(f"ask {name}" in now.said() for name in ("ses_0a", "ses_0b"))
        assert (len(now.logs) >= 2 and is_whole) or now.mirror.problems or now.unknown, done
        if number % 2 == 0:
            assert all(now.logs[name].startswith(log) for name, log in before.logs.items()), done
        if number % 5 == 0:
            recollect.Home(home, data=own, index=False).check()
        shutil.rmtree(own)


def test_a_locked_database_is_read(tmp_path: Path) -> None:
    path = tiny_homes.opencode_database(tmp_path / "home")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        now = Mirrored("opencode", tmp_path / "home", tmp_path / "data")
    assert len(now.logs) == 2
    assert not now.problems


def test_a_write_ahead_log_that_was_cut_hides_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    path = tiny_homes.opencode_database(home)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("UPDATE session SET version = '1.2.27'")
        database.commit()
        files = {one.name: one.read_bytes() for one in home.iterdir()}
    log = home / "opencode.db-wal"
    (home / "opencode.db").write_bytes(files["opencode.db"])
    whole = files[log.name]
    for end in range(1, len(whole), 13 if ALL else len(whole) // 8):
        log.write_bytes(whole[:end])
        now = Mirrored("opencode", home, tmp_path / "data")
        assert len(now.logs) == 2, end
        shutil.rmtree(tmp_path / "data")


def test_a_database_that_is_none_hides_no_other(tmp_path: Path) -> None:
    home = tmp_path / "home"
    path = tiny_homes.opencode_database(home)
    (home / "opencode-next.db").write_bytes(b"no database" * 100)
    now = Mirrored("opencode", home, tmp_path / "data")
    assert len(now.logs) == 2
    assert [problem.path for problem in now.problems] == [str(home / "opencode-next.db")]
    data = path.read_bytes()
    for place in range(100, len(data), 512 if ALL else 8192):
        path.write_bytes(data[:place] + bytes(64) + data[place + 64 :])
        Mirrored("opencode", home, tmp_path / "data")


def test_whatever_a_dialect_raises_is_told_and_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last net: a mistake of ours with one file."""
    from recollect.agents import codex

    path, real = tiny_homes.codex(tmp_path / "home"), codex.mirror

    def failing(unit: Any, state: Any, into: AgentMirror) -> None:
        if unit.path == path:
            into.append(into.log(into.place(tiny_homes.CHANGED, "/w")), [{"type": "half"}], (unit.source, 0))
            raise KeyError("payload")
        real(unit, state, into)

    monkeypatch.setattr(codex, "mirror", failing)
    now = Mirrored("codex", tmp_path / "home", tmp_path / "data")
    assert len(now.logs) == 1
    (problem,) = now.problems
    assert problem.path == str(path)
    assert "KeyError" in problem.reason
    monkeypatch.setattr(codex, "mirror", real)
    healed = Mirrored("codex", tmp_path / "home", tmp_path / "data")
    assert healed.logs == Mirrored("codex", tmp_path / "home", tmp_path / "fresh").logs
    assert not healed.problems


def test_a_compressed_file_is_cut_by_no_reader(tmp_path: Path) -> None:
    """What was compressed is read back as it was."""
    path = tiny_homes.codex_compressed(tmp_path / "home")
    now = Mirrored("codex", tmp_path / "home", tmp_path / "data")
    back = originals(now.lines)[path.with_suffix("").relative_to(tmp_path / "home").as_posix()]
    assert b"".join(back) == zstandard.ZstdDecompressor().decompress(path.read_bytes())
