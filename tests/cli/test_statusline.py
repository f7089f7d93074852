"""`recollect limits statusline`: always a line, always exit status 0, and the right figures when they can be had."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from recollect.cli import statusline
from recollect.cli.statusline import may_hold
from recollect.index.access import open_index
from recollect.index.background import PAUSE_SECONDS
from tests.cli.session_logs import PAYLOADS, drives_a_terminal
from tests.small_home import ONE, TWO, lines, link, prompt, put

NOW = 1_794_744_420  # 2026-11-15T12:07:00Z
NOON = NOW - 7 * 60
SONNET = "claude-sonnet-4-5-20250929"
STARTED = (
    "import sys; from recollect.cli.main import main; sys.exit(main(['limits', 'statusline', *sys.argv[1:]]))"
)


def iso(seconds: int) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def response(number: int, at: int, model: str = SONNET, **usage: int) -> dict[str, Any]:
    """An answer at a time, with these token counts."""
    message = {
        "id": f"msg_{number}",
        "model": model,
        "content": [],
        "stop_reason": "end_turn",
        "usage": usage,
    }
    entry = link(number, None, type="assistant", message=message, requestId=f"req_{number}")
    return {**entry, "timestamp": iso(at)}


def answer(number: int, at: int, model: str = SONNET) -> dict[str, Any]:
    """An answer to a hundred thousand tokens of input: 0.30 dollars with Sonnet 4.5."""
    return response(number, at, model, input_tokens=100_000)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """It is seven minutes past noon, in UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def home(own_home: Path) -> Path:
    """One session of yesterday and today, one agent of it, and another session.

    Each answer costs 0.30 dollars: 100,000 tokens of input at 3 dollars a million.
    """
    home = own_home / ".claude"
    log = put(
        home, ONE, [prompt(1, None, "Go"), answer(2, NOW - 86_400), answer(3, NOON - 3_600), answer(4, NOW)]
    )
    agent = log.with_suffix("") / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(
        lines([{**answer(5, NOW - 60), "isSidechain": True, "agentId": "a1", "sessionId": ONE}])
    )
    put(home, TWO, [answer(6, NOON - 6 * 3_600), answer(7, NOON - 3_000)])
    return home


def indexed(home: Path, age: float = 0) -> str:
    """The index of a home, refreshed so many seconds before NOW."""
    with open_index([home]) as opened:
        path = opened.path
    moment = NOW - age
    os.utime(path.with_suffix(".lock"), (moment, moment))
    return str(path)


def shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], said: object, *arguments: str
) -> str:
    """The line for what a client says, at NOW."""
    text = said if isinstance(said, bytes) else json.dumps(said).encode()
    monkeypatch.setattr(statusline, "_input", lambda: text)
    with monkeypatch.context() as then:
        then.setattr(time, "time", lambda: float(NOW))
        assert 0 == statusline.main(["--no-refresh", *arguments], [], None)
    (line,) = capsys.readouterr().out.splitlines()
    return str(line)


FULL = {
    "session_id": ONE,
    "model": {"id": "claude-sonnet-4-5", "display_name": "Sonnet 4.5"},
    "cost": {"total_cost_usd": 7.125},
    "context_window": {
        "used_percentage": 23.4,
        "context_window_size": 200_000,
        "current_usage": {
            "input_tokens": 1_000,
            "output_tokens": 999,
            "cache_creation_input_tokens": 2_000,
            "cache_read_input_tokens": 43_800,
        },
    },
    "rate_limits": {
        "five_hour": {"used_percentage": 23.5, "resets_at": NOON + 2 * 3_600},
        "seven_day": {"used_percentage": 41, "resets_at": NOON + 2 * 86_400},
    },
}


# --- figures ------------------------------------------------------------------------------


def test_the_line_has_everything(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Session: four answers, the agent's one too. Today: all but yesterday's. The block began at 11:00."""
    indexed(home)

    assert (
        "Sonnet 4.5 | session $1.20 | today $1.50 | block $1.20, 233 min left | ctx 47k (23%)"
        " | 5h 24% resets 14:00 | 7d 41% resets Tue 12:00"
    ) == shown(monkeypatch, capsys, FULL)


def test_the_figures_can_be_had_as_json(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exact amounts as text, moments in UTC."""
    indexed(home, age=5)

    assert {
        "session": ONE,
        "model": "Sonnet 4.5",
        "session_cost_usd": "1.2",
        "client_cost_usd": 7.125,
        "today_cost_usd": "1.5",
        "block": {
            "start": "2026-11-15T11:00:00Z",
            "end": "2026-11-15T16:00:00Z",
            "minutes_left": 233,
            "cost_usd": "1.2",
        },
        "context": {"tokens": 46_800, "window": 200_000, "percent": 23.4},
        "rate_limits": FULL["rate_limits"],
        "budget": [],
        "index_age_seconds": 5.0,
        "unpriced": [],
        "notes": [],
    } == json.loads(shown(monkeypatch, capsys, FULL, "--json"))


def test_what_the_client_does_not_say_is_looked_up(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An old client gives the transcript alone: model and context are those of the newest answer."""
    indexed(home)
    said = {"transcript_path": f"/x/{ONE}.jsonl"}

    assert (f"{SONNET} | session $1.20 | today $1.50 | block $1.20, 233 min left | ctx 100k (50%)") == shown(
        monkeypatch, capsys, said
    )


def test_an_unknown_session_costs_what_the_client_says(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The index has not seen it yet; today and the block are everybody's."""
    indexed(home)
    said = {"session_id": "00000000-0000-4000-8000-00000000dead", "cost": {"total_cost_usd": 0.126}}

    assert "session $0.13 | today $1.50 | block $1.20, 233 min left" == shown(monkeypatch, capsys, said)


@pytest.mark.parametrize(("age", "mark"), [(60, ""), (61, "~"), (-61, "~")])
def test_figures_older_than_a_minute_are_marked(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], age: int, mark: str
) -> None:
    """All amounts that come from the index; a refresh in the future is none to rely on."""
    indexed(home, age)

    assert (
        f"session {mark}$1.20 | today {mark}$1.50 | block {mark}$1.20, 233 min left | ctx 100k (50%)"
        == shown(monkeypatch, capsys, {"session_id": ONE, "model": {"id": ""}}).removeprefix(f"{SONNET} | ")
    )


def test_a_model_without_a_price_leaves_a_plus(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its tokens are in no amount, and each amount that lacks something says so."""
    put(home, TWO, [answer(6, NOW, "claude-nightly-20261101")])
    indexed(home)

    assert "session $1.20 | today $0.90+ | block $0.90+, 233 min left" == shown(
        monkeypatch,
        capsys,
        {"session_id": ONE, "context_window": {"used_percentage": 0}, "model": {"id": "x"}},
    ).removeprefix("x | ").removesuffix(" | ctx 0k (0%)")


def test_settings_that_cannot_be_used_are_named(
    home: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The list price is shown, and that something is wrong with the file."""
    config = own_home / "xdg-config" / "recollect" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[prices")
    indexed(home)

    line = shown(monkeypatch, capsys, {"session_id": ONE})

    assert ("session $1.20" in line, line.endswith("config.toml cannot be used")) == (True, True)


@pytest.mark.parametrize(
    ("window", "shown_as"),
    [
        ({"used_percentage": 12.5, "context_window_size": 1_000_000}, "ctx 125k (12%)"),
        ({"current_usage": {"input_tokens": 50_000}, "context_window_size": 100_000}, "ctx 50k (50%)"),
        ({"current_usage": {"input_tokens": 50_000}}, "ctx 50k (25%)"),
        ({"current_usage": {"cache_read_input_tokens": 1_500_000}}, "ctx 1.5M (150%)"),
        ({"used_percentage": None, "current_usage": None}, ""),
        ({"used_percentage": "many", "context_window_size": -1}, ""),
        ({"used_percentage": 1e300}, ""),
    ],
)
def test_context_is_what_the_client_says_of_it(
    window: dict[str, Any], shown_as: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Per cent and size, or counts and size, or counts alone; without either nothing is shown."""
    line = shown(monkeypatch, capsys, {"context_window": window, "model": {"display_name": "M"}})

    assert ["M", *[shown_as] * bool(shown_as), "no Claude home"] == line.split(" | ")


def test_a_limit_whose_window_has_ended_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was used of it says nothing of the next; one without a time is shown without."""
    said = {
        "rate_limits": {
            "five_hour": {"used_percentage": 99, "resets_at": NOW - 1},
            "seven_day": {"used_percentage": 3, "resets_at": None},
        }
    }

    assert "7d 3% | no Claude home" == shown(monkeypatch, capsys, said)


def test_names_cannot_drive_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every payload, as the name of a model and as an option."""
    for payload in PAYLOADS:
        line = shown(monkeypatch, capsys, {"model": {"display_name": payload}}, f"--{payload}")

        assert [] == drives_a_terminal(line)


# --- whatever comes in --------------------------------------------------------------------


def test_values_of_any_type_are_borne(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each field in turn as text, number, list, object, truth and nothing, some absurdly large."""
    indexed(home)
    odd: list[object] = [
        "text",
        -1,
        1e308,
        10**40,
        [],
        {},
        [1, {"a": 2}],
        True,
        False,
        None,
        "\ud800",
        "x" * 10_000,
    ]
    for path in statusline._PATHS:
        for value in odd:
            said: object = value
            for name in reversed(path.split(".")):
                said = {name: said}

            assert "today $1.50" in shown(monkeypatch, capsys, said)


def test_without_an_index_the_client_is_believed(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it says is shown, and why there is no more."""
    assert (
        "Sonnet 4.5 | session $7.13 | ctx 47k (23%) | 5h 24% resets 14:00 | 7d 41% resets Tue 12:00 | no index yet"
        == shown(monkeypatch, capsys, FULL)
    )


def test_a_locked_index_is_not_waited_for(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody has it for themselves: the line says so at once."""
    import apsw

    path = indexed(home)
    owner = apsw.Connection(path)
    owner.pragma("journal_mode", "delete")
    owner.execute("BEGIN EXCLUSIVE")

    assert "M | the index is busy" == shown(monkeypatch, capsys, {"model": {"id": "M"}})


def test_a_writer_does_not_stand_in_the_way(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While a refresh writes, the line shows what was there before."""
    import apsw

    path = indexed(home)
    writer = apsw.Connection(path)
    writer.execute("BEGIN IMMEDIATE; DELETE FROM rollup")

    assert shown(monkeypatch, capsys, {}).startswith("today $1.50")


def test_an_unknown_option_is_named_and_left_aside(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2 would blank the line."""
    indexed(home)

    assert shown(monkeypatch, capsys, b"", "--colour").endswith(" min left | no option --colour")


def test_a_part_that_breaks_costs_its_figures_only(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever raises, and whatever it raises: first the reading, then the line itself."""
    monkeypatch.setattr(statusline, "_look_up", None)
    assert "M" == shown(monkeypatch, capsys, {"model": {"id": "M"}})

    monkeypatch.setattr(statusline, "_line", None)
    monkeypatch.setattr(statusline, "_document", None)
    assert ["recollect", "{}"] == [shown(monkeypatch, capsys, {}, *more) for more in ((), ("--json",))]


def test_help_shows_what_to_write_into_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    """The snippet is whole: it can be pasted."""
    with pytest.raises(SystemExit) as ended:
        statusline.main(["--help"], [], None)
    snippet = next(line for line in capsys.readouterr().out.splitlines() if "statusLine" in line)

    assert 0 == ended.value.code
    assert {"statusLine": {"type": "command", "command": "recollect limits statusline"}} == json.loads(
        snippet
    )


# --- as a process -------------------------------------------------------------------------


def started(*arguments: str, code: str = STARTED, **streams: Any) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, as a client starts it."""
    command = [sys.executable, "-c", code, *arguments]
    # Clients do not ask for unbuffered streams, and with them a lost line is never noticed.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        command, text=True, timeout=60, check=False, env=env, **{"capture_output": True, **streams}
    )


def test_a_line_loads_apsw_and_hardly_anything_else(home: Path) -> None:
    """What is loaded is what a line costs. No parser of options, no tables; nothing to start processes."""
    indexed(home)
    code = (
        "import sys; before = set(sys.modules); from recollect.cli.main import main;"
        "main(['limits', 'statusline']); print(*sorted(set(sys.modules) - before), file=sys.stderr)"
    )
    os.utime(next((home.parent / "xdg-cache" / "recollect").glob("*.lock")))

    done = started(code=code, input=json.dumps(FULL))
    loaded = set(done.stderr.split())

    assert "session $1.20" in done.stdout
    ours = {name for name in loaded if name.startswith("recollect.")}
    assert len(ours) < 25
    assert (
        not {
            "recollect.index.refresh",
            "recollect.model.lines",
            "recollect.model.views",
            "recollect.cli.terminal",
        }
        & ours
    )
    assert not {"argparse", "asyncio", "msgspec", "rich", "subprocess", "zstandard"} & loaded


def test_an_input_that_never_ends_is_not_waited_for(home: Path) -> None:
    """A client that leaves the pipe open gets its line from what it has said so far."""
    indexed(home)
    with subprocess.Popen(
        [sys.executable, "-c", STARTED, "--no-refresh"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"model": {"display_name": "M"}}))
        process.stdin.flush()

        assert process.stdout.readline().startswith("M | ")
        assert 0 == process.wait(60)


@pytest.mark.parametrize("descriptor", [0, 1, 2])
def test_a_closed_stream_is_no_failure(home: Path, descriptor: int) -> None:
    """Exit status 0 and nothing on the others that should not be there."""
    code = f"import os; os.close({descriptor}); os.execv({sys.executable!r}, [{sys.executable!r}, '-c', {STARTED!r}, '--no-refresh'])"

    done = started(code=code, input=json.dumps({"model": {"id": "M"}}))

    expected = {0: "no index yet\n", 1: "", 2: "M | no index yet\n"}[descriptor]
    assert (0, expected, "") == (done.returncode, done.stdout, done.stderr)


def test_a_reader_that_went_away_is_no_failure(home: Path) -> None:
    """Neither is a full disk behind stdout."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = started(
            "--no-refresh", input="{}", capture_output=False, stdout=writing, stderr=subprocess.PIPE
        )
    finally:
        os.close(writing)

    assert (0, "") == (done.returncode, done.stderr)


def test_a_cache_that_cannot_be_written_is_no_failure(home: Path, own_home: Path) -> None:
    """A file stands where the cache should be: no index, no marker, no refresh, and a line."""
    (own_home / "xdg-cache").write_text("in the way")

    done = started(input="")

    assert (0, "no index yet\n", "") == (done.returncode, done.stdout, done.stderr)


def test_no_home_directory_is_no_failure(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The working directory is gone as well."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.setenv("HOME", "relative")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "relative")
    code = f"import os; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r}); " + STARTED

    done = started(code=code, input='{"model": {"id": "M"}}')

    assert (0, "M\n", "") == (done.returncode, done.stdout, done.stderr)


# --- bringing the index up to date --------------------------------------------------------


@pytest.fixture
def counter(tmp_path: Path) -> Path:
    """A program that stands in for the interpreter and notes each time it is started, and with what."""
    program = tmp_path / "counter"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {tmp_path}/starts\n')
    program.chmod(0o755)
    return program


def eventually(file: Path) -> str:
    """What another process writes into a file."""
    deadline = time.monotonic() + 60
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return file.read_text()


def starts(counter: Path) -> list[str]:
    """What the stand-in was started with, once for each time."""
    return eventually(counter.parent / "starts").split("--cache ")[1:]


def counting(counter: Path) -> str:
    """The command, with the stand-in as its interpreter."""
    return f"import sys; sys.executable = {str(counter)!r}; " + STARTED


@pytest.mark.parametrize(
    ("age", "arguments", "expected"),
    [(1, (), 0), (16, (), 1), (16, ("--no-refresh",), 0), (16, ("--json",), 1)],
)
def test_an_old_index_is_brought_up_to_date_by_somebody_else(
    home: Path, counter: Path, age: int, arguments: tuple[str, ...], expected: int
) -> None:
    """One process is started, for this home and this cache; none for a fresh index, or where nobody wants it."""
    index = Path(indexed(home))
    moment = time.time() - age
    os.utime(index.with_suffix(".lock"), (moment, moment))

    done = started(*arguments, code=counting(counter), input="")

    if not expected:
        time.sleep(0.3)  # what must not be started would have to be given the time
    assert (0, "") == (done.returncode, done.stderr)
    assert (index.with_suffix(".asked").exists(), [f"{index.parent} {home}\n"] * expected) == (
        bool(expected),
        starts(counter) if expected else [],
    )


def test_the_first_line_of_all_asks_for_an_index(home: Path, counter: Path) -> None:
    """There is none, not even a directory for it."""
    done = started(code=counting(counter), input="")

    assert (0, "no index yet\n") == (done.returncode, done.stdout)
    assert 1 == len(starts(counter))


def test_many_lines_at_once_start_one_refresh(home: Path, counter: Path) -> None:
    """Every one exits with 0 and has a whole line. On a slow machine another refresh is due after each pause."""
    index = indexed(home, age=3_600)
    count, began = 200 if os.environ.get("RECOLLECT_TORTURE") else 40, time.monotonic()
    with ThreadPoolExecutor(20) as pool:
        done = list(pool.map(lambda _: started(code=counting(counter), input=json.dumps(FULL)), range(count)))
    pauses = int((time.monotonic() - began) / PAUSE_SECONDS)

    assert {(0, "")} == {(one.returncode, one.stderr) for one in done}
    assert {"Sonnet 4.5 | session ~$1.20"} == {one.stdout.partition(" | today ")[0] for one in done}
    assert 1 <= len(starts(counter)) <= 1 + pauses
    assert Path(index).exists()


def test_a_process_that_cannot_be_started_is_no_failure(home: Path, tmp_path: Path) -> None:
    """The next to ask tries again when the pause is over."""
    code = f"import sys; sys.executable = {str(tmp_path / 'none')!r}; " + STARTED

    done = started(code=code, input="")

    assert (0, "no index yet\n", "") == (done.returncode, done.stdout, done.stderr)


def test_the_refresh_happens_and_runs_nothing_of_the_directory_it_was_asked_in(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index appears. Modules lying about in the working directory, named like ours, are not loaded."""
    for name in ("recollect/__init__.py", "recollect/services/__init__.py", "runpy.py", "zlib.py", "apsw.py"):
        trap = tmp_path / "repository" / name
        trap.parent.mkdir(parents=True, exist_ok=True)
        trap.write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')")
    monkeypatch.chdir(tmp_path / "repository")
    code = "import sys; sys.path.remove(''); " + STARTED
    started(code=code, input="")

    deadline = time.monotonic() + 60
    line = ""
    while "session" not in line and time.monotonic() < deadline:
        line = started("--no-refresh", code=code, input=json.dumps({"session_id": ONE})).stdout

    assert "session $1.20" in line
    assert not (tmp_path / "sprung").exists()


def test_the_line_ends_though_the_refresh_goes_on(home: Path, tmp_path: Path) -> None:
    """The client reads to the end of stdout: the process that was started does not hold it open."""
    slow = tmp_path / "slow"
    slow.write_text(
        f"#!/bin/sh\necho $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; exec sleep 60\n"
    )
    slow.chmod(0o755)

    done = started(code=f"import sys; sys.executable = {str(slow)!r}; " + STARTED, input="")

    pid = int(eventually(tmp_path / "pid"))
    os.kill(pid, signal.SIGTERM)  # raises where it has ended, which is when it let go of stdout
    assert (0, "no index yet\n", "") == (done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", False),
        ('[sync]\nserver = "https://example.org"\n', False),
        ('[prices."claude-nightly"]\ninput = 3\n', True),
        ('["pr\\u0069ces".x]\ninput = 3\n', True),
        ("[prices", True),
    ],
)
def test_a_file_without_the_word_sets_no_price(tmp_path: Path, text: str, expected: bool) -> None:
    """A key written with an escape is the same key."""
    (tmp_path / "config.toml").write_text(text)

    assert expected == may_hold(str(tmp_path / "config.toml"), b"prices")


def test_what_is_not_there_sets_no_price_and_what_cannot_be_read_may(tmp_path: Path) -> None:
    """The proper reader says what is wrong with it."""
    (tmp_path / "file").touch()
    (tmp_path / "directory").mkdir()
    names = ["none", "file/below", "directory"]

    assert [False, False, True] == [may_hold(str(tmp_path / name), b"prices") for name in names]
