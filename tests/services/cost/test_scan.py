"""Usage read straight from the logs is the usage the index has, line for line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recollect.services.cost import scan as scanning
from recollect.services.cost.scan import LogUsageSource, scan
from recollect.services.cost.scan_worker import UsageTask, read
from recollect.services.indexing.access import open_index
from recollect.services.indexing.extraction import frames
from recollect.services.indexing.session_listing import ExtractionJob
from recollect.storage.logs import chunks as log_chunks
from recollect.system import pool_processes
from tests.made_corpora import SEEDS, Made, make

_NAMES = ("model", "branch", "version", "tool")
_REST = "variant, input, output, cache_write_5m, cache_write_1h, cache_read, web_searches, recorded, duration, lines"


@pytest.fixture(autouse=True)
def small_bundles(monkeypatch: pytest.MonkeyPatch) -> None:
    """A generated home is one bundle, which no other process would read."""
    monkeypatch.setattr(scanning, "_BUNDLE", 100_000)


@pytest.fixture(scope="session", params=SEEDS)
def made(request: pytest.FixtureRequest, shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A home of the generator."""
    return make(shared, tmp_path_factory.mktemp("made") / "home", request.param)


def rows_of_index(homes: Sequence[Path], cache: Path) -> set[tuple[object, ...]]:
    """Every copy of every response, with names for numbers and the amounts that count."""
    texts = ", ".join(f"(SELECT text FROM names WHERE id = copies.{name})" for name in _NAMES)
    with open_index(homes, cache=cache) as opened:
        assert opened.database is not None
        found = opened.database.rows(
            f"SELECT path, counted, responses.message, request, speaker, has_stop, forked, at, {texts}, {_REST}"
            " FROM copies JOIN files ON files.id = copies.file JOIN responses ON responses.id = copies.response"
        )
    return set(found)


def rows_of_scan(source: LogUsageSource) -> set[tuple[object, ...]]:
    paths = [log.path for log in source.log_rows()]
    placed = [(1, *one) for one in source._rows] + [(0, *one) for one in source._dropped]
    return {(paths[log], is_counted, *named(row)) for is_counted, log, row in placed}


def named(row: Sequence[object]) -> tuple[object, ...]:
    """An empty name is none: the index keeps no number for it."""
    return (*row[:6], *(name or None for name in row[6:10]), *row[10:])


def test_the_rows_of_a_generated_home(made: Made, tmp_path: Path) -> None:
    """Every field of every row, counted or not."""
    expected = rows_of_index([made.home], tmp_path)

    assert expected == rows_of_scan(scan([made.home]))
    assert len(expected) >= made.truth["responses"]


@pytest.mark.parametrize("which", ["corpus/*/projects", "samples/claude-home/*/.claude/projects"])
def test_the_rows_of_real_homes(shared: Path, which: str, tmp_path: Path) -> None:
    """Logs of clients from 1.0.24 to 2.1.325, all homes together."""
    homes = sorted(path.parent for path in shared.glob(which))

    assert rows_of_index(homes, tmp_path) == rows_of_scan(scan(homes))


def test_logs_say_the_same_of_themselves(shared: Path, tmp_path: Path) -> None:
    """Session and directory of every log, old agents' logs in the project's directory included."""
    homes = sorted(path.parent for path in shared.glob("samples/claude-home/*/.claude/projects"))
    with open_index(homes, cache=tmp_path) as opened:
        assert opened.database is not None
        expected = opened.database.rows(
            "SELECT path, home, role, session, agent, text FROM files LEFT JOIN names ON names.id = cwd WHERE role < 2"
        )
    found = scan(homes).log_rows()

    assert set(expected) == {
        (log.path, log.home, int(log.is_agent), log.session, log.agent, log.cwd) for log in found
    }


# --- processes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sizes", [[], [5], [3_000_000] * 9, [1 << 28, 7, 9_000, *range(1, 40_000_000, 1_999_999)]]
)
def test_every_log_is_in_one_bundle_and_the_last_are_small(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int]
) -> None:
    """Whoever is done first waits for little: what another process has been given already."""
    monkeypatch.setattr(scanning, "_BUNDLE", 4 << 20)
    shares = scanning._shares(sizes)

    assert sorted(at for share in shares for at in share) == [*range(len(sizes))]
    assert all(len(share) == 1 or sum(sizes[at] for at in share[:-1]) < 1 << 19 for share in shares[-4:])


@pytest.mark.parametrize("processes", [2, 3, "more than logs"])
def test_any_number_of_processes_finds_the_same(made: Made, processes: int | str) -> None:
    """More of them than logs, too."""
    alone = scan([made.home], processes=1)
    count = processes if isinstance(processes, int) else len(list(alone.log_rows())) + 2

    assert rows_of_scan(alone) == rows_of_scan(scan([made.home], processes=count))


@pytest.mark.parametrize(
    "program", ["raise SystemExit(3)", "print('nonsense')", "import sys; sys.stdin.buffer.read(9)"]
)
def test_a_process_that_fails_costs_time_only(
    made: Made, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it was to read is read here."""
    expected = rows_of_scan(scan([made.home], processes=1))
    monkeypatch.setattr(pool_processes, "_PROGRAM", ("-c", program))
    monkeypatch.setattr(pool_processes, "forked", lambda: None)

    assert expected == rows_of_scan(scan([made.home], processes=2))


def test_where_no_process_can_be_started(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """All is read here."""
    expected = rows_of_scan(scan([made.home], processes=1))
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    monkeypatch.setattr(pool_processes, "forked", lambda: None)

    assert expected == rows_of_scan(scan([made.home], processes=2))


def test_a_copy_of_this_process_finds_the_same(made: Made) -> None:
    """A process with one thread is copied, as a command is; what it finds is what is found here."""
    program = (
        "import sys; from pathlib import Path\n"
        "from recollect.services.cost import scan as scanning\n"
        "from recollect.system import pool_fork, pool_processes\n"
        "made = []\n"
        "def noted():\n"
        "    made.append(pool_fork.forked())\n"
        "    return made[-1]\n"
        "pool_processes.forked, scanning._BUNDLE = noted, 1\n"
        "one, two = (scanning.scan([Path(sys.argv[1])], processes=count) for count in (1, 2))\n"
        "assert one._rows == two._rows and one._dropped == two._dropped\n"
        "assert len(made) == 1 and made[0] is not None and made[0]._pid is None\n"
        "print(len(one._rows))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, made.home], capture_output=True, text=True, check=False, timeout=120
    )

    assert "" == done.stderr
    assert int(done.stdout) == made.truth["responses"]


def test_nothing_is_imported_from_where_somebody_stands(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory may hold a package of our name: it is not run."""
    trap, mark = tmp_path / "recollect", tmp_path / "mark"
    trap.mkdir()
    (trap / "__init__.py").write_text(f"open({str(mark)!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    scan([made.home], processes=2)

    assert not mark.exists()


# --- odd lines --------------------------------------------------------------------------------------


def frame_rows(path: Path, with_all: bool) -> list[tuple[object, ...]]:
    """What the index would take from one log of one frame."""
    rows = [row for frame in frames(ExtractionJob(str(path))) for row in frame.usage]
    return sorted((masked(named((*row[:19], row[20])), with_all) for row in rows), key=repr)


def scan_rows(path: Path, with_all: bool) -> list[tuple[object, ...]]:
    """What the scan takes from it."""
    answer = read(UsageTask(str(path), needs_session=True, with_tools=with_all, with_records=with_all))
    return sorted((masked(named(row), with_all) for row in answer.rows), key=repr)


def masked(row: tuple[object, ...], with_all: bool) -> tuple[object, ...]:
    """Without the tool and the record, where nobody asked for them."""
    return row if with_all else (*row[:9], *row[10:17], *row[18:])


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 10**6), st.floats(0, 9), st.text('ab"\\\u2028é', max_size=4)
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


def mostly(value: object) -> st.SearchStrategy[object]:
    """A right value nearly always, else anything."""
    return st.one_of(*[st.just(value)] * 12, anything)


MISSING = object()


def rarely(value: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A field that few lines have."""
    return mixed(st.just(MISSING), value)


def mixed(right: st.SearchStrategy[Any], wrong: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly the one, now and then the other."""
    return st.one_of(*[right] * 12, wrong)


def fields(**given: object) -> st.SearchStrategy[dict[str, Any]]:
    """An object whose fields are mostly right, now and then wrong or missing."""
    choices = {
        name: st.one_of(
            *[value if isinstance(value, st.SearchStrategy) else mostly(value)] * 8, st.just(MISSING)
        )
        for name, value in given.items()
    }
    return st.fixed_dictionaries(choices).map(
        lambda found: {name: value for name, value in found.items() if value is not MISSING}
    )


usages = mixed(
    fields(
        input_tokens=st.integers(0, 300_000) | st.sampled_from([-1, 10**9, 10**19]),
        output_tokens=mixed(st.integers(0, 9), st.sampled_from([-1, 10**8, 10**15])),
        cache_creation_input_tokens=st.integers(0, 50),
        cache_read_input_tokens=st.integers(0, 50),
        cache_creation=fields(ephemeral_5m_input_tokens=30, ephemeral_1h_input_tokens=20),
        server_tool_use=fields(web_search_requests=2, web_fetch_requests=1),
        service_tier=st.sampled_from(["standard", "batch", "priority", None]),
        speed=st.sampled_from(["standard", "fast", None]),
        inference_geo=st.sampled_from(["us", "", "not_available"]),
        iterations=[{"type": "message"}],
    ),
    st.sampled_from([{}, None, 5, "usage", []]),
)
blocks = st.lists(
    st.one_of(
        fields(type="text", text="Yes."),
        fields(type="thinking", thinking="Hm.", signature="x"),
        fields(type="tool_use", id="t", name=st.sampled_from(["Bash", "Read"]), input={"command": "ls"}),
        fields(type="server_tool_use", name="web_search", input={}),
    ),
    max_size=3,
)
messages = fields(
    id=st.sampled_from(["m1", "m2", None]),
    model=st.sampled_from(["claude-opus-4-6", "<synthetic>", None]),
    role="assistant",
    stop_reason=st.sampled_from([None, "end_turn"]),
    usage=usages,
    content=mixed(blocks, st.sampled_from(["Yes.", None, 5, [5]])),
)
entries = fields(
    uuid="5c62b5ca-8f80-411d-a924-536af0155240",
    parentUuid="fea5edbf-cfe5-4bc3-a8cf-7f5577e737ce",
    timestamp=st.sampled_from(
        ["2026-11-15T10:00:00.000Z", "2026-11-15T10:00:01.000Z", "2026-11-15T11:00:00+01:00", "late", None]
    ),
    type=st.sampled_from(["assistant", "assistant", "assistant", "user", "progress", "summary"]),
    isSidechain=st.sampled_from([True, False]),
    gitBranch=st.sampled_from(["main", ""]),
    version=st.sampled_from(["2.1.30", "2.0.1", "x"]),
    requestId=st.sampled_from(["r1", "r2"]),
    forkedFrom={"sessionId": "s"},
    message=messages,
    cwd="/srv/shop",
    sessionId="s",
    costUSD=rarely(st.sampled_from([0.25, None, -1, 10**9])),
    durationMs=rarely(st.sampled_from([1200, 3.5, None, -4, 10**18])),
    data=fields(type="agent_progress", message=fields(type="assistant", requestId="r1", message=messages)),
    toolUseResult={"usage": {"input_tokens": 1}},
    # The flat dialect has these on top.
    usage=usages,
    model="claude-opus-4-6",
    content="Yes.",
)
lines = st.one_of(
    entries.map(lambda entry: json.dumps(entry).encode()),
    entries.map(lambda entry: json.dumps(entry, separators=(",", ":")).encode()),
    entries.map(lambda entry: json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace")),
    entries.map(lambda entry: b"\xef\xbb\xbf" + json.dumps(entry).encode() + b"\r"),
    st.tuples(entries, st.integers(1, 80)).map(lambda pair: json.dumps(pair[0]).encode()[: -pair[1]]),
    st.tuples(entries, st.binary(max_size=3)).map(
        lambda pair: json.dumps(pair[0]).encode() + pair[1].replace(b"\n", b"")
    ),
    st.sampled_from([b"", b'"usage"', b'{"usage":' * 80 + b"1" + b"}" * 80, b'{"message":{"usage":"\xff"}}']),
)


SHAPELESS = b'{"uuid":[],"type":"assistant","message":{"id":"m1","model":"claude-opus-4-6","usage":{}}}'


@pytest.mark.slow
@example([SHAPELESS], b"", 16, True)
@example([SHAPELESS.replace(b"[]", b'"u"').replace(b'"usage"', b'"content":5,"usage"')], b"", 16, False)
@given(
    st.lists(lines, max_size=8), st.binary(max_size=30), st.sampled_from([16, 300, 1 << 18]), st.booleans()
)
def test_odd_lines_are_read_as_the_index_reads_them(
    tmp_path_factory: pytest.TempPathFactory, log: list[bytes], tail: bytes, chunk: int, with_all: bool
) -> None:
    """Wrong types, missing fields, other dialects, damage, and chunks that end anywhere."""
    path = tmp_path_factory.mktemp("odd") / "s.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in log) + tail.replace(b"\n", b""))
    before, log_chunks._CHUNK = log_chunks._CHUNK, chunk
    try:
        found = scan_rows(path, with_all)
    finally:
        log_chunks._CHUNK = before

    assert frame_rows(path, with_all) == found


PROGRESS: dict[str, Any] = {
    "type": "progress",
    "uuid": "u",
    "parentUuid": "p",
    "sessionId": "s",
    "timestamp": "2026-11-15T10:00:00.000Z",
    "version": "2.1.30",
    "gitBranch": "main",
}
NEWS: dict[str, Any] = {
    "type": "assistant",
    "requestId": "r",
    "message": {"id": "m1", "model": "claude-opus-4-6", "usage": {"output_tokens": 3}, "content": []},
}


@pytest.mark.parametrize(
    ("line", "news", "count"),
    [
        ({}, {}, 1),
        ({}, {"type": "user"}, 0),
        ({}, {"type": "foreign-usage"}, 1),
        ({}, {"subtype": 5}, 0),
        ({}, {"costUSD": 0.25}, 1),
        ({}, {"durationMs": 1200}, 1),
        ({}, {"message": NEWS["message"] | {"model": "<synthetic>"}}, 0),
        ({}, {"message": NEWS["message"] | {"content": None}}, 1),
        ({}, {"message": NEWS["message"] | {"usage": None}}, 0),
        ({"subtype": 5}, {}, 1),
        ({"forkedFrom": {"sessionId": "f"}}, {}, 1),
        ({"forkedFrom": None}, {}, 1),
        ({"sessionId": None, "session_id": "s"}, {}, 1),
    ],
)
@pytest.mark.parametrize("with_all", [False, True])
def test_what_a_parent_repeats_of_its_agent(
    tmp_path: Path, line: dict[str, Any], news: dict[str, Any], count: int, with_all: bool
) -> None:
    """The short way for such lines and the way of the index come to the same rows, odd fields included."""
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps(PROGRESS | line | {"data": {"message": NEWS | news}}) + "\n")
    found = scan_rows(path, with_all)

    assert frame_rows(path, with_all) == found
    assert count == len(found)


ANSWER: dict[str, Any] = {
    "type": "assistant",
    "uuid": "u",
    "sessionId": "s",
    "timestamp": "2026-11-15T10:00:00.000Z",
    "message": {"id": "m1", "model": "claude-opus-4-6", "usage": {"output_tokens": 3}, "content": []},
}
ADVISOR = {"type": "advisor_message", "model": "claude-opus-4-7", "output_tokens": 9}


@pytest.mark.parametrize(
    "iterations", [[ADVISOR], [{"type": "message"}, ADVISOR], [{"type": "message"}], [5], None]
)
def test_an_advisor_is_found_where_only_iterations_name_it(
    tmp_path: Path, iterations: list[Any] | None
) -> None:
    """It is a response of its own; what else stands there changes nothing."""
    usage = {"output_tokens": 3, "iterations": iterations}
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps(ANSWER | {"message": ANSWER["message"] | {"usage": usage}}) + "\n")
    found = scan_rows(path, False)

    assert frame_rows(path, False) == found
    assert 1 + (ADVISOR in (iterations or ())) == len(found)


def test_a_last_line_counts_once_it_is_whole(tmp_path: Path) -> None:
    """A line that is being written counts once it is whole, before its newline is there (S3)."""
    line = json.dumps(
        {
            "type": "assistant",
            "message": {"id": "m", "model": "x", "usage": {"output_tokens": 1}, "content": []},
        }
    )
    path = tmp_path / "s.jsonl"
    counts = []
    for text in (line[:-1], line, line + "\n", line + "half an", line + line + "\n"):
        path.write_text(text)
        counts.append(len(read(UsageTask(str(path))).rows))

    assert [0, 1, 1, 1, 1] == counts


def test_a_log_that_is_gone_or_no_file_says_nothing(tmp_path: Path) -> None:
    """It was there when the home was listed."""
    assert [] == read(UsageTask(str(tmp_path / "s.jsonl"))).rows
    assert [] == read(UsageTask(str(tmp_path))).rows
