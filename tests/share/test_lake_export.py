"""The lake on disk: the same rows as the library's walks, the same money as the cost report, written again only
where something changed."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from recollect import Home
from recollect.ask.data.query import MANIFEST, run_sql
from recollect.ask.tables import TABLES, VERSION, VERSION_KEY
from recollect.errors import DamagedData, UsageError
from recollect.share.lake_export import LakeReport, export_lake
from tests.small_home import call, lines, link, outcome, prompt, put, reply, said, state, uuid_of

SESSIONS = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(1, 4)]
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
SESSION_OF_ESCAPES = "00000009-0000-4000-8000-000000000000"
SECRET = "ghp_" + "q7Rt2LmX9vBn4KzP1wYs8DfH3jUc6EaG0iNo"
pa, pq, pc = (import_module(name) for name in ("pyarrow", "pyarrow.parquet", "pyarrow.compute"))


def on(day: int, entry: dict[str, Any]) -> dict[str, Any]:
    return {**entry, "timestamp": entry["timestamp"].replace("2026-11-15", f"2026-11-{day:02d}")}


def talk(number: int) -> list[dict[str, Any]]:
    """Two days; an answer over two lines, a call with a result, a failed one, one that waits; a response all sessions have."""
    own = f"s{number}"
    failed = outcome(6, 5, f"f{number}", "Permission to use Read was denied")
    failed["message"]["content"][0]["is_error"] = True
    return [
        on(10, prompt(1, None, f"Q1 with {SECRET}")),
        on(10, reply(2, 1, said("A1"), answer=f"{own}_1")),
        on(10, reply(3, 2, call(f"t{number}"), answer=f"{own}_1")),
        on(10, outcome(4, 3, f"t{number}", "done")),
        on(12, reply(5, 4, call(f"f{number}"), call(f"w{number}"), answer=f"{own}_2")),
        on(12, failed),
        on(12, link(7, 6, type="system", subtype="compact_boundary", content="cut")),
        on(12, reply(8, 7, said("A3"), answer="shared")),
    ]


def agent(name: str) -> list[dict[str, Any]]:
    found = [
        on(12, prompt(20, None, "look", agentId=name)),
        on(12, reply(21, 20, said("x"), answer=f"{name}_1")),
    ]
    return [{**one, "isSidechain": True} for one in found]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "home"
    for number, session in enumerate(SESSIONS):
        log = put(root, session, talk(number))
        side = log.with_suffix("") / "subagents"
        side.mkdir(parents=True)
        mine = [{**one, "sessionId": session} for one in agent(f"a{number}")]
        (side / f"agent-a{number}.jsonl").write_bytes(lines(mine))
    return root


Export = Callable[..., LakeReport]


@pytest.fixture
def export(root: Path, tmp_path: Path) -> Export:
    def run(**options: Any) -> LakeReport:
        home = Home(root, data=tmp_path / "data")
        return export_lake(home, tmp_path / "lake", data=tmp_path / "data", **options)

    return run


def rows(lake: Path, table: str) -> list[dict[str, Any]]:
    found = [pq.ParquetFile(path).read() for path in sorted((lake / table).rglob("*.parquet"))]
    return list(pa.concat_tables(found).to_pylist()) if found else []


def total(lake: Path) -> Decimal:
    return sum((row["usd"] or Decimal(0) for row in rows(lake, "responses")), Decimal(0))


def log_of(root: Path, number: int) -> Path:
    return next(root.rglob(f"{SESSIONS[number]}.jsonl"))


def append(log: Path, *entries: dict[str, Any]) -> None:
    session = log.stem
    with log.open("ab") as file:
        file.write(lines([{**one, "sessionId": session} for one in entries]))


def test_the_lake_has_the_rows_of_the_walks(root: Path, export: Export, tmp_path: Path) -> None:
    """Plain logs, sub-agents inside, twice the same id, damage, a background call's end."""
    notice = (
        "<task-notification><tool-use-id>w0</tool-use-id><status>completed</status>"
        "<summary>well</summary></task-notification>"
    )
    append(log_of(root, 0), on(13, prompt(30, 8, "x", isSidechain=False)),
           on(13, link(31, 30, type="user", message={"role": "user", "content": [said(notice)]})))  # fmt: skip
    escaped = put(root, SESSION_OF_ESCAPES, [*talk(3), on(13, prompt(30, 8, notice.replace("w0", "w3")))])
    escaped.write_bytes(escaped.read_bytes().replace(b"<task-notification>", b"\\u003ctask-notification>"))
    append(log_of(root, 1), *({**one, "uuid": uuid_of(50 + at)} for at, one in enumerate(agent("inline"))))
    with log_of(root, 2).open("ab") as file:
        file.write(b'{"broken": \n' + log_of(root, 2).read_bytes().splitlines()[-1] + b"\n")
    export()

    home = Home(root, data=tmp_path / "data")
    own = {
        "messages": home.messages(branches="all", agents=True).to_arrow().to_pylist(),
        "tool_calls": home.tool_calls().to_arrow().to_pylist(),
        "sessions": home.sessions().to_arrow().to_pylist(),
        "responses": home.responses().to_arrow().to_pylist(),
    }
    for name, expected in own.items():
        columns = [one.name for one in TABLES[name].chosen(with_text=False, walked=True)]
        found = [row for row in rows(tmp_path / "lake", name) if row.get("counted", True)]
        assert sorted(str([row[key] for key in columns]) for row in found) == sorted(
            str([row[key] for key in columns]) for row in expected
        )


def test_money_is_that_of_the_cost_report(root: Path, export: Export, tmp_path: Path) -> None:
    """To the pico-dollar; copies are there, are not counted and cost nothing."""
    export()

    found = rows(tmp_path / "lake", "responses")
    totals = Home(root, data=tmp_path / "data").costs().totals
    assert totals.usd == total(tmp_path / "lake") > 0
    assert totals.responses == sum(row["counted"] for row in found) < len(found)
    assert {None} == {row["usd"] for row in found if not row["counted"]}
    assert sum(row["usd"] for row in rows(tmp_path / "lake", "sessions")) == totals.usd


def test_a_second_run_writes_nothing(export: Export) -> None:
    assert export().written
    again = export()
    assert ([], [], 0) == (again.written, again.removed, again.logs_read)


def test_one_more_line_writes_one_small_file_for_each_table_it_is_in(
    root: Path, export: Export, tmp_path: Path
) -> None:
    """Nothing else, and nothing counts twice."""
    export()
    append(log_of(root, 1), on(14, prompt(40, 8, "one more")))
    more = export()
    assert ["messages/day=2026-11-14/part.parquet", "sessions/day=2026-11-10/part.parquet"] == sorted(
        more.written
    )
    assert 1 == more.logs_read
    append(log_of(root, 1), on(14, reply(41, 40, said("more"), answer="s1_9")))
    more = export()

    assert [
        "messages/day=2026-11-14/part.parquet",
        "responses/day=2026-11-14/part.parquet",
        "sessions/day=2026-11-10/part.parquet",
    ] == sorted(more.written)
    assert Home(root, data=tmp_path / "data").costs().totals.usd == total(tmp_path / "lake")
    ids = [(row["uuid"], row["path"]) for row in rows(tmp_path / "lake", "messages")]
    assert len(ids) == len(set(ids))


def test_a_log_that_was_rewritten_or_deleted_leaves_no_old_row(
    root: Path, export: Export, tmp_path: Path
) -> None:
    """Its messages and calls go; its responses stay as the cost report keeps them."""
    export()
    log, gone = log_of(root, 0), log_of(root, 2)
    log.write_bytes(lines([{**one, "sessionId": SESSIONS[0]} for one in talk(0)[:2]]))
    gone.unlink()
    report = export()

    left = {(row["path"], row["uuid"]) for row in rows(tmp_path / "lake", "messages")}
    assert {uuid_of(1), uuid_of(2)} == {uuid for path, uuid in left if path == str(log)}
    assert str(gone) not in {path for path, _ in left}
    assert {SESSIONS[0], SESSIONS[1]} == {row["id"] for row in rows(tmp_path / "lake", "sessions")}
    assert Home(root, data=tmp_path / "data").costs().totals.usd == total(tmp_path / "lake")
    assert any(row["is_deleted"] for row in rows(tmp_path / "lake", "responses"))
    assert report.notes == []


@pytest.mark.parametrize("cut", range(1, 9))
def test_a_run_that_was_cut_short_is_finished_by_the_next(
    root: Path, export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    """Killed at any file, and the log loses the lines again that had been written: nothing of them is left."""
    from recollect.ask.data.query import LakeFiles

    export()
    expected = {name: rows(tmp_path / "lake", name) for name in TABLES}
    before = log_of(root, 1).read_bytes()
    append(log_of(root, 1), on(20, prompt(40, 8, "x")), on(21, reply(41, 40, call("y"), answer="s1_9")))
    calls, replace = [0], LakeFiles.replace

    def killed(self: LakeFiles, *args: Any) -> Any:
        calls[0] += 1
        if calls[0] == cut:
            raise KeyboardInterrupt
        return replace(self, *args)

    monkeypatch.setattr(LakeFiles, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        export()
    monkeypatch.setattr(LakeFiles, "replace", replace)
    log_of(root, 1).write_bytes(before)
    os.utime(log_of(root, 1), ns=(1, 1))
    export()

    assert expected["messages"] == rows(tmp_path / "lake", "messages")
    assert expected["tool_calls"] == rows(tmp_path / "lake", "tool_calls")


@pytest.mark.parametrize("table", TABLES)
def test_a_file_that_is_missing_or_altered_is_written_again(
    export: Export, tmp_path: Path, table: str
) -> None:
    export()
    expected = rows(tmp_path / "lake", table)
    files = sorted((tmp_path / "lake" / table).rglob("*.parquet"))
    files[0].unlink()
    files[-1].write_bytes(b"PAR1 no longer")
    written = export().written

    assert {str(path.relative_to(tmp_path / "lake")) for path in (files[0], files[-1])} == set(written)
    assert expected == rows(tmp_path / "lake", table)


def test_text_is_there_only_if_asked_for_and_without_its_secrets(export: Export, tmp_path: Path) -> None:
    texts = {
        (table.name, one.name) for table in TABLES.values() for one in table.columns if one.kind == "text"
    }
    export()
    assert not any(column in row for table, column in texts for row in rows(tmp_path / "lake", table))
    export(with_text=True)
    found = [str(row[column]) for table, column in texts for row in rows(tmp_path / "lake", table)]

    assert any("A1" in text for text in found)
    assert any("[redacted:" in text for text in found)
    everything = b"".join(path.read_bytes() for path in (tmp_path / "lake").rglob("*") if path.is_file())
    assert not any(SECRET in text for text in found)
    assert SECRET.encode() not in everything
    export()
    assert not any(column in row for table, column in texts for row in rows(tmp_path / "lake", table))


def test_the_version_is_in_each_file_and_older_files_are_read(
    root: Path, export: Export, tmp_path: Path
) -> None:
    """A file without a column of today is kept where nothing changed, and brought up to date where something did."""
    append(log_of(root, 0), on(13, prompt(40, 8, "alone on its day")))
    export()
    lake = tmp_path / "lake"
    for path in (lake / "messages").rglob("*.parquet"):
        file = pq.ParquetFile(path)
        assert str(VERSION).encode() == file.metadata.metadata[VERSION_KEY]
        pq.write_table(file.read().drop_columns(["is_summary"]), path)
    manifest = json.loads((lake / MANIFEST).read_bytes())
    for name, known in manifest["files"].items():
        known[1] = (lake / name).stat().st_size
    (lake / MANIFEST).write_text(json.dumps(manifest))
    append(log_of(root, 1), on(12, prompt(40, 8, "one more")))
    export()

    changed = pq.ParquetFile(lake / "messages" / "day=2026-11-12" / "part.parquet").read().to_pylist()
    assert {None, False} == {row["is_summary"] for row in changed}
    kept = pq.ParquetFile(lake / "messages" / "day=2026-11-13" / "part.parquet").read()
    assert "is_summary" not in kept.column_names


def test_what_is_not_a_lake_is_left_alone(root: Path, export: Export, tmp_path: Path) -> None:
    """Another directory, other homes, a file that engines would count too, a damaged manifest, a newer schema."""
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"holds something else.*notes.txt"):
        export()
    (tmp_path / "lake" / "notes.txt").unlink()
    export()
    with pytest.raises(UsageError, match="is the lake of"):
        export_lake(Home(tmp_path, data=tmp_path / "data"), tmp_path / "lake", data=tmp_path / "data")
    stranger = tmp_path / "lake" / "responses" / "day=2026-11-12" / "copy.parquet"
    stranger.write_bytes(b"PAR1")
    with pytest.raises(UsageError, match=r"did not write responses/day=2026-11-12/copy.parquet"):
        export()
    stranger.unlink()
    manifest = tmp_path / "lake" / MANIFEST
    manifest.write_text(json.dumps({"version": VERSION + 1}))
    with pytest.raises(UsageError, match="newer recollect"):
        export()
    manifest.write_text("{")
    with pytest.raises(DamagedData, match="not a manifest"):
        export()


def test_a_row_without_a_time_has_a_partition_too(root: Path, export: Export, tmp_path: Path) -> None:
    append(log_of(root, 1), {**prompt(40, 8, "when?"), "timestamp": "yesterday"})
    export()

    assert (tmp_path / "lake" / "messages" / "day=__HIVE_DEFAULT_PARTITION__" / "part.parquet").exists()
    assert uuid_of(40) in {row["uuid"] for row in rows(tmp_path / "lake", "messages")}


def test_only_the_owner_can_read_it(export: Export, tmp_path: Path) -> None:
    export()
    assert not [path for path in (tmp_path / "lake").rglob("*") if path.stat().st_mode & 0o077]


STRANGE = [
    *(f"{table}/../../kept/part.parquet" for table in TABLES),
    "responses/../../kept/x.jsonl",
    "responses/day=2026-11-10/../../../kept/part.parquet",
    "responses/day=../../../kept/part.parquet",
    "responses//KEPT/part.parquet",
    "KEPT/x.jsonl",
    "responses/day=2026-11-10/other.parquet",
    "responses/day=2026-11-10/part.parquet\n",
    "others/day=2026-11-10/part.parquet",
    "responses",
    "",
]


@pytest.mark.parametrize("name", STRANGE)
def test_a_manifest_of_someone_else_names_no_file_outside(tmp_path: Path, name: str) -> None:
    """It decides what an export removes and a query reads: neither runs where a name is not one of a lake."""
    lake, kept, root = tmp_path / "lake", tmp_path / "kept", tmp_path / "home"
    for directory in (lake, kept, root / "projects"):
        directory.mkdir(parents=True)
    pq.write_table(pa.table({"session": ["private"]}), kept / "part.parquet")
    (kept / "x.jsonl").write_text("kept\n")
    files = {name.replace("KEPT", str(kept)): [1, 5, ""]}
    (lake / MANIFEST).write_text(json.dumps({"version": VERSION, "homes": [str(root)], "files": files}))
    before = state(tmp_path)
    home = Home(root, data=tmp_path / "data")
    with pytest.raises(DamagedData, match="no file of a lake"):
        export_lake(home, lake, data=tmp_path / "data")
    with pytest.raises(DamagedData, match="no file of a lake"):
        run_sql("SELECT * FROM responses", home=home, lake=lake, limit=0)
    assert before == state(tmp_path)


@pytest.mark.parametrize(
    "at", ["responses", "responses/day=2026-11-10", "responses/day=2026-11-10/part.parquet"]
)
def test_a_link_inside_a_lake_is_not_followed(root: Path, export: Export, tmp_path: Path, at: str) -> None:
    """Neither an export nor a query writes to, removes or reads what it leads to."""
    lake = export().output
    (lake / at).rename(tmp_path / "elsewhere")
    (lake / at).symlink_to(tmp_path / "elsewhere")
    before = state(tmp_path)
    next(root.glob(f"projects/*/{SESSIONS[0]}.jsonl")).unlink()
    with pytest.raises(UsageError, match="a link inside a lake"):
        export()
    with pytest.raises(UsageError, match="a link inside a lake"):
        run_sql("SELECT * FROM responses", home=Home(root, data=tmp_path / "data"), lake=lake, limit=0)
    after = state(tmp_path)
    assert [] == [path for path in before if "elsewhere" in path and before[path] != after.get(path)]


def test_a_session_names_the_client_that_wrote_it(root: Path, export: Export, tmp_path: Path) -> None:
    """A copy of another agent's session says so in its first line, as in ``list --json``."""
    log = log_of(root, 0)
    log.write_bytes(lines([{"type": "foreign-source", "agent": "codex"}]) + log.read_bytes())
    export()
    clients = {row["id"]: row["client"] for row in rows(tmp_path / "lake", "sessions")}
    assert clients == dict.fromkeys(SESSIONS, "claude") | {SESSIONS[0]: "codex"}
