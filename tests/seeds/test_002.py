"""The JSONL storage design, section by section; docs/design/seeds.md has the table.

Its classes and functions are ``recollect.Store``, ``LogReader``, ``check``, ``repair`` and ``clean_up`` here. Two of its
methods are replaced: appending does not copy the file, and nothing is deleted but moved to the trash.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import multiprocessing
import os
import shlex
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

import recollect
from recollect import SessionState, Store
from recollect.cli.main import main
from recollect.model.budget import dollars
from recollect.model.lines.damage import Line
from recollect.model.project_key import flat_project_hash
from recollect.system.lock import FileLock
from tests.small_home import ONE, TALK, TWO, lines, prompt, put, state

NOW = dt.datetime(2025, 11, 16, 10, 30, tzinfo=dt.UTC)
MODEL = "claude-sonnet-4-5-20250929"
USAGE = {"input_tokens": 15000, "output_tokens": 2150, "cache_creation_tokens": 8000, "cache_read_tokens": 0}


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> dt.datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Store:
    """A flat store."""
    return Store(tmp_path / "store", layout="flat", clock=clock)


def written(log: recollect.SessionLog) -> list[dict[str, Any]]:
    """The lines of a log, without the id and the version that we add."""
    found = [json.loads(line) for line in log.path.read_bytes().splitlines()]
    return [
        {name: value for name, value in one.items() if name not in ("uuid", "formatVersion")} for one in found
    ]


def answer(text: str = "Hi!", /, **counts: int) -> recollect.AssistantDraft:
    usage = msgspec.convert(counts or {"input_tokens": 100, "output_tokens": 50}, recollect.Usage)
    return recollect.assistant(text, model=MODEL, usage=usage)


# ---- Key Requirements ------------------------------------------------------------------------------------


def test_r2_1_location(own_home: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """Without a place a flat store is ``~/.config/claude``; what it holds is listed without any option."""
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    with Store(layout="flat", clock=clock).create("/srv/app") as log:
        log.append(recollect.user("Hello"))

    place = own_home / ".config" / "claude" / "projects" / flat_project_hash("/srv/app") / "2025-11-16.jsonl"
    assert place == log.path
    assert [place] == [session.path for session in recollect.Home().sessions()]
    monkeypatch.setenv("XDG_CONFIG_HOME", str(own_home / "other"))
    assert own_home / "other" / "claude" == Store(layout="flat").root
    assert own_home / "xdg-data" / "recollect" / "store" == Store().root


def test_r2_2_project_hash() -> None:
    """``base64url(sha256(absolute_path))[:20]``, by the formula itself."""
    path = "/Users/nick/projects/my-app"
    formula = base64.urlsafe_b64encode(hashlib.sha256(path.encode()).digest()).decode()[:20]

    assert (formula, 20) == (flat_project_hash(path), len(formula))


def test_r2_3_format(store: Store) -> None:
    """One object a line, whatever the text holds."""
    with store.create("/srv/app") as log:
        log.append_many([recollect.user("two\nlines\u2028"), answer("and\r\nmore")])
    data = log.path.read_bytes()

    assert (2, b"\n") == (data.count(b"\n"), data[-1:])
    assert ["two\nlines\u2028", "and\r\nmore"] == [one["content"] for one in written(log)]


def test_r2_4_message_types(store: Store) -> None:
    """Four types, calls and results on lines of their own."""
    with store.create("/srv/app") as log:
        log.append(recollect.user("Q"))
        used = recollect.tool_use("call_1", "Read", {"file_path": "/a"})
        log.append(recollect.assistant([recollect.text("Let me look"), used], model=MODEL))
        log.append(recollect.tool_result("call_1", "text", tool="Read"))

    assert ["user", "assistant", "tool_call", "tool_result"] == [one["type"] for one in written(log)]


def test_r2_5_token_accounting(store: Store) -> None:
    """Input, output, cache writes and cache reads, each by itself."""
    counts = {
        "input_tokens": 1,
        "output_tokens": 2,
        "cache_creation_input_tokens": 3,
        "cache_read_input_tokens": 4,
    }
    with store.create("/srv/app") as log:
        log.append_many([answer("A", **counts), answer("A", **counts)])
    tokens = log.spending.tokens

    assert (2, 4, 6, 8) == (tokens.input, tokens.output, tokens.cache_write_5m, tokens.cache_read)
    assert [
        {"input_tokens": 1, "output_tokens": 2, "cache_creation_tokens": 3, "cache_read_tokens": 4}
    ] * 2 == [one["usage"] for one in written(log)]


def test_r2_6_session_lifecycle(tmp_path: Path, clock: Clock) -> None:
    """Created, resumed, and after 30 days taken away by itself when the next session is created."""
    store = Store(tmp_path, layout="flat", clock=clock, auto_cleanup=True)
    with store.create("/srv/app") as log:
        log.append(recollect.user("Hello"))
    with store.open("2025-11-16") as again:
        assert SessionState.RESUMED == again.state
    clock.now += dt.timedelta(days=31)
    os.utime(tmp_path / "cleanup.turn", (0, 0))  # the day of the first clean-up is over
    store.create("/srv/app")

    assert ([], ["2025-11-16"]) == (store.sessions(), [str(one.id) for one in store.trash()])


# ---- Design Constraints ----------------------------------------------------------------------------------


def test_design_constraints(store: Store) -> None:
    """Damage is passed over, parsing streams, and cents are exact over many messages."""
    with store.create("/srv/app") as log:
        log.append_many([answer(input_tokens=1, output_tokens=0) for _ in range(1000)])
    with log.path.open("ab") as file:
        file.write(b'{"type":"user","content":"torn\n')
    reader = iter(recollect.LogReader(log.path))

    assert isinstance(next(reader), recollect.Entry)
    assert 1 == sum(isinstance(item, recollect.Damage) for item in reader)
    with store.open("2025-11-16") as again:
        assert Decimal("0.003") == again.spending.usd  # rounding each message to cents would give 0


# ---- JSONL Schema Specifications -------------------------------------------------------------------------

USER = '{"type":"user","content":"Analyze the authentication system and identify potential security vulnerabilities.","timestamp":"2025-11-16T10:30:00.000Z"}'
ASSISTANT = '{"type":"assistant","content":"I\'ll analyze the authentication system for security vulnerabilities. Let me start by examining the auth module.","timestamp":"2025-11-16T10:30:05.123Z","usage":{"input_tokens":15234,"output_tokens":2156,"cache_creation_tokens":8543,"cache_read_tokens":0},"model":"claude-sonnet-4-5-20250929","stopReason":"tool_use"}'
CALL = '{"type":"tool_call","tool":"Read","arguments":{"file_path":"/Users/nick/project/src/auth/authentication.ts"},"timestamp":"2025-11-16T10:30:06.000Z","toolCallId":"call_abc123"}'
SUCCESS = '{"type":"tool_result","tool":"Read","result":"import bcrypt from \'bcrypt\';","timestamp":"2025-11-16T10:30:06.543Z","duration_ms":543,"toolCallId":"call_abc123"}'
FAILURE = '{"type":"tool_result","tool":"Read","error":"File not found: /Users/nick/project/src/auth/authentication.ts","timestamp":"2025-11-16T10:30:06.123Z","duration_ms":123,"toolCallId":"call_abc123"}'


def body_of(line: str) -> recollect.Body:
    """The meaning of an example, which must come out byte for byte."""
    entry = recollect.decode(Line(line.encode()))
    assert isinstance(entry, recollect.Entry)
    assert (recollect.Dialect.FLAT, line.encode() + b"\n") == (entry.dialect, recollect.encode(entry))
    return entry.body


def test_message_type_1_user_message(store: Store) -> None:
    """The example is read; ``metadata.source`` is written, and read back, and nothing else is taken for one."""
    body = body_of(USER)
    assert isinstance(body, recollect.User)
    assert str(body.message.content).startswith("Analyze the authentication")
    with store.create("/srv/app") as log:
        log.append_many([recollect.user("Q", source=source) for source in ("cli", "api", "agent", None)])

    session = {"sessionId": "2025-11-16"}
    assert [
        {"source": "cli", **session},
        {"source": "api", **session},
        {"source": "agent", **session},
        session,
    ] == [one["metadata"] for one in written(log)]
    entry = next(iter(log.entries()))
    assert isinstance(entry, recollect.Entry)
    assert ("cli", "2025-11-16") == (
        entry.chain and entry.chain.entrypoint,
        entry.chain and entry.chain.session_id,
    )
    with pytest.raises(recollect.UsageError, match="source 'mail' is not known"):
        recollect.user("Q", source="mail")


def test_message_type_2_assistant_message(store: Store) -> None:
    """The example is read, and a line like it is written."""
    body = body_of(ASSISTANT)
    assert isinstance(body, recollect.Assistant)
    message, usage = body.message, body.message.usage
    assert usage is not None
    assert (MODEL, "tool_use", 15234, 2156, 8543, 0) == (
        message.model,
        message.stop_reason,
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_creation_input_tokens,
        usage.cache_read_input_tokens,
    )
    with store.create("/srv/app") as log:
        log.append(recollect.assistant(str(json.loads(ASSISTANT)["content"]), model=MODEL, usage=usage))
    (line,) = written(log)
    assert {
        **json.loads(ASSISTANT),
        "timestamp": "2025-11-16T10:30:00.000Z",
        "stopReason": "end_turn",
    } == line


def test_message_type_3_tool_call_message(store: Store) -> None:
    """The example is read, and a line like it is written."""
    body = body_of(CALL)
    assert isinstance(body, recollect.ToolCallBody)
    given = json.loads(CALL)["arguments"]
    assert ("Read", "call_abc123", given) == (body.name, body.call_id, json.loads(bytes(body.input)))
    with store.create("/srv/app") as log:
        log.append(recollect.assistant([recollect.tool_use("call_abc123", "Read", given)], model=MODEL))
    (line,) = [one for one in written(log) if one["type"] == "tool_call"]
    assert {**json.loads(CALL), "timestamp": line["timestamp"]} == line


def test_message_type_4_tool_result_message(store: Store) -> None:
    """Both examples are read, and lines like them are written, ``duration_ms`` included."""
    good, bad = body_of(SUCCESS), body_of(FAILURE)
    assert isinstance(good, recollect.ToolResultBody)
    assert isinstance(bad, recollect.ToolResultBody)
    assert (543, None, 123, json.loads(FAILURE)["error"]) == (
        good.duration_ms,
        good.error,
        bad.duration_ms,
        bad.error,
    )
    with store.create("/srv/app") as log:
        for example in map(json.loads, (SUCCESS, FAILURE)):
            text, is_error = example.get("result", example.get("error")), "error" in example
            log.append(
                recollect.tool_result(
                    "call_abc123", text, is_error, tool="Read", duration_ms=example["duration_ms"]
                )
            )
    for line, example in zip(written(log), map(json.loads, (SUCCESS, FAILURE)), strict=True):
        assert {**example, "timestamp": line["timestamp"]} == line
    with pytest.raises(recollect.UsageError, match="is no duration"):
        recollect.tool_result("call_1", "text", duration_ms=-1)


# ---- Session Lifecycle State Machine ---------------------------------------------------------------------


def test_state_diagram(store: Store, clock: Clock) -> None:
    """Every arrow of the diagram; deleted sessions are in the trash, with a way back."""
    log = store.create("/srv/app")
    states = [log.state]
    for _ in range(2):  # first message, append message
        log.append(recollect.user("Hello"))
        states.append(log.state)
    log.close()
    again = store.open("2025-11-16")
    states.append(again.state)
    again.append(answer())
    states.append(again.state)
    again.close()
    clock.now += dt.timedelta(days=30, seconds=1)
    states.append(store.find("2025-11-16").state)
    batch = store.delete("2025-11-16").batch

    assert ["created", "active", "active", "resumed", "active", "expired"] == states
    assert [] == store.sessions()
    assert "expired" == store.restore(batch).state


def test_state_transitions(store: Store, clock: Clock) -> None:
    """``resume`` counts tokens and cost again; ``check_expiration`` goes by the last entry, not by the file's time."""
    with store.create("/srv/app") as log:
        log.append_many([recollect.user("Q"), answer(), answer("More")])
    os.utime(log.path, (0, 0))
    with store.open("2025-11-16") as again:
        assert (log.spending, 300) == (
            again.spending,
            again.spending.tokens.input + again.spending.tokens.output,
        )
    assert "active" == store.find("2025-11-16").state
    with pytest.raises(recollect.NotFound):
        store.open("2025-11-17")
    empty = store.paths.log(flat_project_hash("/srv/app"), recollect.SessionId("2025-11-15"))
    empty.touch()
    os.utime(empty, (NOW.timestamp(), NOW.timestamp()))
    assert "created" == store.find("2025-11-15").state
    clock.now += dt.timedelta(days=31)
    assert "expired" == store.find("2025-11-15").state


# ---- Token Accounting Formulas ---------------------------------------------------------------------------

PRICING = {
    "claude-sonnet-4-5-20250929": ("3.00", "15.00", "3.75", "0.30"),
    "claude-opus-4-1-20250805": ("15.00", "75.00", "18.75", "1.50"),
    "claude-3-5-sonnet-20241022": ("3.00", "15.00", "3.75", "0.30"),
}


@pytest.mark.parametrize("model", PRICING)
def test_cost_calculation_algorithm(store: Store, model: str) -> None:
    """Each price of the table, a hundred thousand tokens each; an unknown model is named, never free."""
    for number, price in enumerate(PRICING[model]):
        names = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        with Store(store.root / str(number), layout="flat").create("/srv/app") as log:
            usage = msgspec.convert({names[number]: 100_000}, recollect.Usage)
            log.append(recollect.assistant("A", model=model, usage=usage))
        assert Decimal(price) / 10 == log.spending.usd
    with store.create("/srv/app") as log:
        log.append(recollect.assistant("A", model="model-x", usage=recollect.Usage(input_tokens=1)))
    assert {"model-x"} == log.spending.unpriced


def flat_answer() -> bytes:
    line = {
        "type": "assistant",
        "content": "A",
        "timestamp": "2025-11-16T10:00:00Z",
        "usage": USAGE,
        "model": MODEL,
    }
    return json.dumps(line).encode()


def test_example_cost_calculation() -> None:
    """$0.045 + $0.03225 + $0.030, rounded once, when it is shown: $0.11."""
    entry = recollect.decode(Line(flat_answer()))
    assert isinstance(entry, recollect.Entry)
    spent = recollect.price(entry)

    assert spent is not None
    assert (Decimal("0.10725"), "$0.11") == (spent.usd, dollars(spent.pico_usd))


# ---- Atomic Write Operations -----------------------------------------------------------------------------


def append_many(root: str, writer: int) -> None:
    """Append from another process."""
    with Store(root, layout="flat", clock=lambda: NOW).create("/srv/app") as log:
        for number in range(20):
            log.append(recollect.user(f"{writer} {number}"))


def test_atomic_write_algorithm(tmp_path: Path) -> None:
    """A locked log is refused in time, with nothing written; processes at once lose and repeat nothing."""
    append_many(str(tmp_path), 0)
    store = Store(tmp_path, layout="flat", lock_timeout=0.1, clock=lambda: NOW)
    with store.create("/srv/app") as log:
        before = log.path.read_bytes()
        with FileLock(store.paths.lock(log.path), 1.0, guards=log.path), pytest.raises(recollect.LogLocked):
            log.append(recollect.user("Locked out"))
        assert before == log.path.read_bytes()
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=append_many, args=(str(tmp_path), one)) for one in (1, 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert [0, 0] == [worker.exitcode for worker in workers]
    expected = sorted(f"{one} {number}" for one in range(3) for number in range(20))
    assert expected == sorted(one["content"] for one in written(log))


def test_performance_optimization_append_only(store: Store) -> None:
    """Appending copies nothing, and heals what a crash tore: the half line stays, the next one stands by itself."""
    with store.create("/srv/app") as log:
        log.append(recollect.user("One"))
        inode = log.path.stat().st_ino
        with log.path.open("ab") as file:
            file.write(b'{"type":"user","content":"half')
        log.append(recollect.user("Two"))
    items = list(recollect.LogReader(log.path))
    texts = [item.message.content for item in items if isinstance(item, recollect.Entry) and item.message]

    assert (inode, ["One", "Two"]) == (log.path.stat().st_ino, texts)
    assert 1 == sum(isinstance(item, recollect.Damage) for item in items)


# ---- Corruption Recovery ---------------------------------------------------------------------------------


def corrupt(path: Path) -> Path:
    """The file of the third functional test, with a blank line and a type that is not known."""
    path.write_text(
        '{"type":"user","content":"Valid 1","timestamp":"2025-11-16T10:00:00Z"}\n'
        '{"type":"user","content":"Corrupt line\n'
        "\n"
        '{"type":"telemetry","value":1}\n'
        '{"type":"user","content":"Valid 2","timestamp":"2025-11-16T10:00:02Z"}\n'
    )
    return path


def test_streaming_parser_with_error_tolerance(tmp_path: Path) -> None:
    """Damage is told with its place, an unknown type is kept, and reading goes on after both."""
    entries: list[recollect.Entry] = []
    damage: list[recollect.Damage] = []
    for item in recollect.LogReader(corrupt(tmp_path / "log.jsonl")):
        if isinstance(item, recollect.Damage):
            damage.append(item)
        else:
            entries.append(item)

    assert [71] == [item.offset for item in damage]
    assert [recollect.User, recollect.UnknownBody, recollect.User] == [type(item.body) for item in entries]


def test_corruption_detection_and_repair(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines in all, lines that are valid, numbers of those that are not; repair sets them aside and can be undone."""
    root = own_home / ".claude"
    log = put(root, ONE, [])
    whole = lines([{**one, "sessionId": ONE} for one in TALK])
    first, *rest = whole.splitlines(keepends=True)
    data = first + b'{"type":"user","message":{"role":"us\n' + b"".join(rest)
    log.write_bytes(data)
    home = recollect.Home(root)

    assert 1 == main(["doctor", ONE, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (5, 4, 1) == tuple(found["summary"][name] for name in ("lines", "valid", "damaged"))
    assert [2] == [one["line"] for one in found["findings"] if one["code"] == "invalid-json"]
    done = home.repair(ONE, apply=True, in_place=True)
    assert (whole, True) == (log.read_bytes(), done.applied)
    assert done.undo is not None
    home.undo(done.undo)
    assert data == log.read_bytes()


# ---- Session Cleanup -------------------------------------------------------------------------------------


def test_auto_cleanup_algorithm(store: Store, clock: Clock) -> None:
    """Expired sessions and old empty logs go to the trash, all bytes with them; the others stay."""
    for days in (40, 31, 1):
        clock.now = NOW - dt.timedelta(days=days)
        with store.create("/srv/app") as log:
            log.append(recollect.user("Hello"))
    clock.now = NOW
    for name, days in (("2025-01-01", 300), ("2025-11-14", 2)):
        empty = log.path.with_name(f"{name}.jsonl")
        empty.touch()
        moment = (NOW - dt.timedelta(days=days)).timestamp()
        os.utime(empty, (moment, moment))
    before = {path.name: path.read_bytes() for path in log.path.parent.glob("*.jsonl")}
    gone = store.clean_up()

    assert {"2025-10-07", "2025-10-16", "2025-01-01"} == {str(one.id) for one in gone}
    assert {"2025-11-15", "2025-11-14"} == {str(one.id) for one in store.sessions()}
    for one in gone:
        store.restore(one.batch)
    assert before == {path.name: path.read_bytes() for path in log.path.parent.glob("*.jsonl")}
    assert [] == Store(store.root / "none", layout="flat").clean_up()


def test_auto_cleanup_of_a_home(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``cleanup --schedule`` lets the client run it; ``--auto`` archives, trashes, empties directories, once a day."""
    root = own_home / ".claude"
    old = {"timestamp": "2020-01-01T10:00:00.000Z"}
    put(root, ONE, [{**entry, **old} for entry in TALK], "/srv/old")
    empty = put(root, TWO, [], "/srv/empty")
    os.utime(empty, (0, 0))
    fresh = str(uuid.uuid4())
    today = dt.datetime.now(dt.UTC).isoformat()
    put(root, fresh, [{**prompt(1, None, "Q"), "timestamp": today}], "/srv/new")
    before = state(root)

    assert 0 == main(["protect", "tidy", "--schedule", "--json"])
    planned = json.loads(capsys.readouterr().out)
    assert (False, before) == (planned["applied"], state(root))
    assert 0 == main(["protect", "tidy", "--schedule", "--apply", "--json"])
    undo = json.loads(capsys.readouterr().out)["undo"]
    (hook,) = json.loads((root / "settings.json").read_text())["hooks"]["SessionEnd"]
    command = hook["hooks"][0]["command"]
    words = shlex.split(command)
    assert ["protect", "tidy", "--older-than", "30d", "--auto"] == words[-5:]
    assert [True, str(root)] == [Path(words[0]).is_absolute(), words[words.index("--home") + 1]]
    command = " ".join(["recollect", *words[words.index("--home") :]])

    assert 0 == main([*command.split()[1:], "--json"])
    done = json.loads(capsys.readouterr().out)
    assert {ONE, TWO} == {one["session"] for one in done["sessions"]}
    assert ["-srv-new"] == [path.name for path in (root / "projects").iterdir()]
    assert 4 == len(recollect.Home(root).session(ONE).conversation().messages)
    assert 0 == main(done["undo"].split()[1:])
    assert 0 == main([*command.split()[1:], "--json"])
    assert True is (root / "projects" / "-srv-empty").exists()  # not due again today
    assert 0 == main(undo.split()[1:])
    assert False is (root / "settings.json").exists()


def test_auto_cleanup_in_the_library(own_home: Path) -> None:
    """``cleanup_old_sessions(cleanup_days)``: what it would take, then what it took, and the way back."""
    root = own_home / ".claude"
    put(root, ONE, [{**entry, "timestamp": "2020-01-01T10:00:00.000Z"} for entry in TALK])
    held = [{**entry, "timestamp": "2020-01-01T10:00:00.000Z"} for entry in TALK]
    put(root, TWO, [*held, {"type": "tag", "tag": "hold"}])
    home = recollect.Home(root)
    before = state(root)

    planned = home.clean_up(30)
    assert {ONE: None, TWO: "it is tagged hold"} == {
        one.session: one.kept_because for one in planned.sessions
    }
    assert planned.undo is None
    done = home.clean_up(30, apply=True)
    assert [TWO] == [session.id for session in home.sessions()]
    assert done.undo is not None
    home.undo(done.undo)
    assert before == state(root)


def test_project_hash_generation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deterministic, of the absolute path, and safe as a name."""
    (tmp_path / "app").mkdir()
    monkeypatch.chdir(tmp_path)
    store = Store(tmp_path / "store", layout="flat")
    keys = {store.create(path).place.key for path in ("app", tmp_path / "app", "./app/../app")}

    assert {flat_project_hash(str(tmp_path / "app"))} == keys
    assert all(character.isalnum() or character in "-_" for character in next(iter(keys)))


# ---- Functional Testing Examples -------------------------------------------------------------------------


def test_message_persistence(store: Store) -> None:
    """The first functional test."""
    with store.create("/srv/app") as log:
        log.append(recollect.user("Hello"))
        log.append(answer("Hi!"))
    parsed = [item for item in log.entries() if isinstance(item, recollect.Entry)]

    assert ["user", "assistant"] == [item.kind for item in parsed]


def test_cost_calculation() -> None:
    """The second: 15,000 + 2,150 + 8,000 tokens are 11 cents."""
    entry = recollect.decode(Line(flat_answer()))
    assert isinstance(entry, recollect.Entry)
    spent = recollect.price(entry)

    assert spent is not None
    assert Decimal("0.11") == spent.usd.quantize(Decimal("0.01"))


def test_corruption_recovery(tmp_path: Path) -> None:
    """The third: two valid messages, one corrupt line passed over."""
    items = list(recollect.LogReader(corrupt(tmp_path / "test-corrupt.jsonl")))
    texts = [item.message.content for item in items if isinstance(item, recollect.Entry) and item.message]

    assert ["Valid 1", "Valid 2"] == texts
