"""`recollect cost`: what was used, what it cost, and what is not known."""

from __future__ import annotations

import csv
import datetime as dt
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main
from tests.small_home import ONE, TWO, prompt, put, reply, said
from tests.small_home import lines as logged

HAIKU, OPUS, NEW = "claude-haiku-4-5-20251001", "claude-opus-4-5-20251101", "claude-nightly-20261101"
COUNTS = {
    "input_tokens": 0,
    "output_tokens": 0,
    "cache_write_5m_tokens": 0,
    "cache_write_1h_tokens": 0,
    "cache_read_tokens": 0,
    "web_searches": 0,
}


def answer(message: str, at: str, model: str = HAIKU, **usage: int) -> dict[str, Any]:
    """A line of an answer; a million tokens of input cost $1 on Haiku 4.5."""
    said = {
        "id": message,
        "model": model,
        "role": "assistant",
        "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Yes."}],
        "usage": {"input_tokens": 1_000_000, "output_tokens": 0, **usage},
    }
    place = {"sessionId": "3f2a", "cwd": "/srv/shop", "gitBranch": "main", "version": "2.1.325"}
    return {"type": "assistant", "uuid": message, "timestamp": at, "requestId": "r", "message": said, **place}


def write(home: Path, session: str, *lines: dict[str, Any]) -> Path:
    path = home / "projects" / "-srv-shop" / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def home(own_home: Path) -> Path:
    """Two days: $1 of Haiku, then $5 of Opus and a model without a price, which both wrote 7 tokens."""
    claude = own_home / ".claude"
    write(
        claude,
        "3f2a9c1e-0000-4000-8000-000000000001",
        answer("a", "2026-11-14T10:00:00.000Z"),
        answer("a", "2026-11-14T10:00:00.000Z"),
        answer("b", "2026-11-15T10:00:00.000Z", OPUS, output_tokens=7),
        answer("c", "2026-11-15T11:00:00.000Z", NEW, output_tokens=7),
    )
    return claude


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """What ``--json`` prints."""
    assert 0 == main(["cost", "--timezone", "UTC", *arguments, "--json"])
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return printed


def test_a_cost_that_is_unknown_is_no_0(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Null, an empty cell, a dash; what has a price and no tokens is 0, and what has it in part a lower bound."""
    more = (
        answer("d", "2026-11-16T10:00:00.000Z", input_tokens=0),
        answer("e", "2026-11-17T10:00:00.000Z", NEW),
    )
    write(home, TWO, *more)
    days = {row["day"][-2:]: (row["cost_usd"], row["unpriced_responses"]) for row in document(capsys)["rows"]}
    assert {"14": ("1", 0), "15": ("5.000175", 1), "16": ("0", 0), "17": (None, 1)} == days

    unknown = document(capsys, "--by", "total", "--model", NEW)
    assert ([None], None) == (
        [row["cost_usd"] for row in unknown["rows"]],
        unknown["totals"]["cost_usd"],
    )
    assert 0 == main(["cost", "--by", "day", "--csv", "--timezone", "UTC"])
    cells = csv.DictReader(capsys.readouterr().out.splitlines())
    assert ["1", "5.000175", "0", ""] == [row["cost_usd"] for row in cells]
    assert 0 == main(["cost", "--by", "day", "--timezone", "UTC"])
    amounts = [line.split()[6] for line in capsys.readouterr().out.splitlines()[1:]]
    assert ["$1.00", "$5.00", "$0.00", "-", "$6.00"] == amounts


@pytest.mark.usefixtures("home")
def test_the_document_has_the_keys_others_rely_on(capsys: pytest.CaptureFixture[str]) -> None:
    """Money is an exact decimal text; what has no price is named with its tokens."""
    found = document(capsys, "--by", "day,model")

    million = {**COUNTS, "input_tokens": 1_000_000}
    assert [
        {
            "day": "2026-11-14",
            "model": HAIKU,
            "responses": 1,
            **million,
            "cost_usd": "1",
            "unpriced_responses": 0,
        },
        {
            "day": "2026-11-15",
            "model": OPUS,
            "responses": 1,
            **million,
            "output_tokens": 7,
            "cost_usd": "5.000175",
            "unpriced_responses": 0,
        },
        {
            "day": "2026-11-15",
            "model": NEW,
            "responses": 1,
            **million,
            "output_tokens": 7,
            "cost_usd": None,
            "unpriced_responses": 1,
        },
    ] == found["rows"]
    assert {
        "responses": 3,
        **COUNTS,
        "input_tokens": 3_000_000,
        "output_tokens": 14,
        "cost_usd": "6.000175",
        "unpriced_responses": 1,
    } == found["totals"]
    assert [{"model": NEW, "responses": 1, **million, "output_tokens": 7}] == found["unpriced"]
    assert ([], 0, ["day", "model"]) == (found["uncertain"], found["gone"], found["by"])


@pytest.mark.usefixtures("home")
def test_without_options_it_is_by_day(capsys: pytest.CaptureFixture[str]) -> None:
    """Aligned columns, a total, and on stderr what is not in it and what to do."""
    assert 0 == main(["cost", "--timezone", "UTC"])
    out, err = capsys.readouterr()

    assert [
        "day         responses      input  output  cache write  cache read   cost",
        "2026-11-14          1  1,000,000       0            0           0  $1.00",
        "2026-11-15          2  2,000,000      14            0           0  $5.00    1 unpriced",
        "total               3  3,000,000      14            0           0  $6.00  1 unpriced",
    ] == out.splitlines()
    assert f"at least $6.00: 1 response of {NEW} without a price (see --explain)\n" == err


def test_keys_may_be_repeated_or_joined(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--by day --by model`` is ``--by day,model``; ``--by total`` is one row."""
    assert document(capsys, "--by", "day", "--by", "model") == document(capsys, "--by", "day,model")
    assert 1 == len(document(capsys, "--by", "total")["rows"])


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("foo", ("by 'foo': unknown", "client, total")),
        ("day,day", ("by day,day: day is given twice", "once")),
        ("total,day", ("total is one row for everything", "alone")),
    ],
)
def test_wrong_keys_are_named(keys: str, words: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """With all keys there are, ``total`` too."""
    assert 2 == main(["cost", "--by", keys])
    told = capsys.readouterr().err
    assert [True, True] == [word in told for word in words]


def test_a_terminal_shows_bars_and_the_newest_rows(
    own_home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty of forty days, the dearest with the longest bar, and a word about the others."""
    lines = [
        answer(f"m{day}", f"2026-{10 + day // 30}-{day % 30 + 1:02}T12:00:00.000Z", input_tokens=day * 1000)
        for day in range(1, 41)
    ]
    write(own_home / ".claude", "s", *lines)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    main(["cost", "--timezone", "UTC"])
    out, err = capsys.readouterr()
    rows = out.splitlines()[1:-1]

    assert (30, "2026-11-11") == (len(rows), rows[-1][:10])
    assert "█" * 20 == rows[-1].split()[-1]
    assert all(0 < len(row.split()[-1]) < 20 for row in rows[:-2])
    assert "the newest 30 of 40 rows" in err


def test_a_limit_keeps_the_dearest_rows(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where a cheap row stands under a dear project, the dear row of another project is shown before it."""
    claude = own_home / ".claude"
    at = "2026-11-15T10:00:00.000Z"
    million = {"input_tokens": 1_000_000}
    write(claude, "one", answer("a", at, OPUS, **million), answer("b", at, OPUS, **million), answer("c", at))
    other = [{**answer(name, at, OPUS, **million), "cwd": "/srv/other"} for name in ("d",)]
    write(claude, "two", *other)

    rows = document(capsys, "--by", "project,model", "--limit", "2")["rows"]

    assert [("/srv/shop", OPUS), ("/srv/other", OPUS)] == [(row["project"], row["model"]) for row in rows]


@pytest.mark.usefixtures("home")
def test_a_row_can_be_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """One log, one repeated line, the price, and no record to compare with."""
    why = document(capsys, "--by", "model", "--model", HAIKU, "--explain")["rows"][0]["explain"]
    main(["cost", "--by", "model", "--model", HAIKU, "--explain"])
    out = capsys.readouterr().out

    assert (1, 1, "0", 1) == (
        why["logs"],
        why["copies_dropped"],
        why["recorded_cost_usd"],
        why["unrecorded_responses"],
    )
    assert why["paths"][0].endswith("0001.jsonl")
    assert "1 repeated line not counted twice" in out
    assert "the client recorded no cost" in out


def test_performance_has_its_keys(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """600 tokens in 20 s for $3: 30 a second, 200 a dollar."""
    line = {
        **answer("a", "2026-11-15T10:00:00.000Z", input_tokens=2_997_000, output_tokens=600),
        "durationMs": 20_000,
    }
    write(own_home / ".claude", "s", line)
    row = document(capsys, "--by", "model", "--performance")["rows"][0]
    main(["cost", "--by", "model", "--performance"])

    assert ("3", 1, 20_000, 30.0, 200.0) == (
        row["cost_usd"],
        row["timed_responses"],
        row["duration_ms"],
        row["tokens_per_second"],
        row["tokens_per_dollar"],
    )
    assert "tokens/s" in capsys.readouterr().out


def test_what_was_deleted_is_said(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Still in the total, and where it comes from."""
    document(capsys)
    next(home.glob("projects/*/*.jsonl")).unlink()
    gone = document(capsys)
    main(["cost"])

    assert ("6.000175", 1) == (gone["totals"]["cost_usd"], gone["gone"])
    assert "1 session deleted from the home but still in the totals" in capsys.readouterr().err


def test_own_prices_count(home: Path, own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A price in config.toml makes the unknown model cost something."""
    config = own_home / "xdg-config" / "recollect" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[prices."claude-nightly"]\ninput = "2.00"\noutput = "10.00"\n')
    found = document(capsys)

    assert ("8.000245", []) == (found["totals"]["cost_usd"], found["unpriced"])


def test_names_from_logs_cannot_drive_a_terminal(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model named with an escape sequence is shown, not obeyed."""
    write(own_home / ".claude", "s", answer("a", "2026-11-15T10:00:00.000Z", "evil\x1b[2Jmodel"))
    main(["cost", "--by", "model", "--explain"])
    out, err = capsys.readouterr()

    assert "\x1b" not in out + err
    assert "evil\\x1b[2Jmodel" in out


@pytest.mark.parametrize(
    "arguments",
    [["--by", "hour"], ["--by", "day,day"], ["--limit", "0"], ["--timezone", "Mars"], ["--since", "soon"]],
)
def test_what_cannot_be_asked(home: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A usage error with the next step, and nothing on stdout."""
    assert 2 == main(["cost", *arguments])
    out, err = capsys.readouterr()
    assert ("", 2) == (out, len(err.splitlines()))


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
@pytest.mark.parametrize("is_for_all", [True, False], ids=["the group", "the command alone"])
def test_ctrl_c_while_two_processes_read(own_home: Path, tmp_path: Path, is_for_all: bool) -> None:
    """Exit code 130, one line that says so, and no process is left."""
    for session in "abcdefghijkl":
        write(own_home / ".claude", session, answer(session, "2026-11-14T10:00:00.000Z"))
    worker = (
        "import os, pathlib, sys, time; pathlib.Path(sys.argv[1], str(os.getpid())).touch(); time.sleep(600)"
    )
    program = (
        "import sys\n"
        "from recollect.cli import main\n"
        "from recollect.index import refresh\n"
        "from recollect.system import workers\n"
        f"workers._PROGRAM = ('-c', {worker!r}, sys.argv[1])\n"
        "refresh.cores, refresh._BUNDLE, refresh._WORTH_A_PROCESS = lambda: 3, 1, 1\n"
        "sys.exit(main.main(['cost', '--no-index']))\n"
    )
    marks = tmp_path / "marks"
    marks.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", program, marks], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 30
    while len(found := [int(mark.name) for mark in marks.iterdir()]) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    (os.killpg if is_for_all else os.kill)(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)

    assert 2 == len(found)
    assert (130, "recollect: interrupted\n") == (process.returncode, said)
    assert not any(Path(f"/proc/{number}").exists() for number in found)


@pytest.mark.parametrize(("length", "key"), [("1d", "today"), ("7d", "last_7_days"), ("30d", "last_30_days")])
def test_thirty_days_are_those_of_the_overview(
    own_home: Path, capsys: pytest.CaptureFixture[str], length: str, key: str
) -> None:
    """Each day cost a dollar; the day before the first, a minute later than now, is of neither sum."""
    now = dt.datetime.now(dt.UTC)
    times = [now - dt.timedelta(days=day, minutes=-1 if day else 0) for day in range(40)]
    lines = [answer(f"m{day}", f"{at:%Y-%m-%dT%H:%M:%S}.000Z") for day, at in enumerate(times)]
    write(own_home / ".claude", "3f2a9c1e-0000-4000-8000-000000000009", *lines)

    assert 0 == main(["cost", "--since", length, "--json"])
    spent = json.loads(capsys.readouterr().out)["totals"]["cost_usd"]
    assert 0 == main(["--json"])

    assert spent == json.loads(capsys.readouterr().out)["cost"][key]


def test_doubt_is_one_line_in_dollars(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The share of responses without a final count; --explain has the details, also of prices."""
    at = "2026-11-15T10:00:00.000Z"
    million = {"input_tokens": 1_000_000}
    sure = [answer(f"s{number}", at, OPUS, **million) for number in range(3)]
    unsure = {**answer("u", at, OPUS, **million), "version": "2.1.30"}
    unsure["message"]["stop_reason"] = None
    write(own_home / ".claude", "s", *sure, unsure, answer("n", at, NEW, **million))
    main(["cost"])
    told = capsys.readouterr().err
    main(["cost", "--explain"])
    explained = capsys.readouterr().err

    assert 1 == len(told.splitlines())
    assert "the final output count of 20 % of responses is not known; 1 response of" in told
    assert f"{NEW}: 1 response without a price for 1,000,000 input, which are not in the cost" in explained
    assert "set one: add a section" in explained


def test_what_responses_without_a_final_count_may_cost_is_estimated(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Thirty answers of a million tokens for $25 each tell how long two more were; twenty-nine are too few to tell."""
    at = "2026-11-15T10:00:00.000Z"
    usage = {"input_tokens": 0, "output_tokens": 1_000_000}
    sure = [answer(f"s{number}", at, OPUS, **usage) for number in range(30)]
    unsure = [
        {**answer(f"u{number}", at, OPUS, **{**usage, "output_tokens": 0}), "version": "2.1.30"}
        for number in range(2)
    ]
    for one in unsure:
        one["message"]["stop_reason"] = None
    write(own_home / ".claude", "s", *sure, *unsure)
    main(["cost"])
    told = capsys.readouterr().err
    main(["cost", "--json"])
    report = json.loads(capsys.readouterr().out)
    write(own_home / ".claude", "s", *sure[1:], *unsure)
    main(["cost"])
    few = capsys.readouterr().err

    assert (
        "at least $750.00, about $800.00: the final output count of 6 % of responses is not known,"
        " taken to be as long as the others\n"
    ) == told
    assert ("750", "50") == (report["totals"]["cost_usd"], report["uncertain"][0]["estimated_more_usd"])
    assert "at least $725.00: the final output count of 6 % of responses is not known\n" == few


def test_of_a_response_with_one_part_without_a_price_the_rest_is_priced(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Claude 2 had no cache: ten million tokens of input cost $80, and five tokens of the cache are said to cost something else."""
    at = "2026-11-15T10:00:00.000Z"
    usage = {"input_tokens": 10_000_000, "cache_read_input_tokens": 5}
    write(own_home / ".claude", "s", answer("a", at, "claude-2.1", **usage))
    main(["cost", "--json"])
    totals = json.loads(capsys.readouterr().out)
    main(["cost", "--explain"])

    assert ("80", 1) == (totals["totals"]["cost_usd"], totals["totals"]["unpriced_responses"])
    (missing,) = totals["unpriced"]
    assert ("claude-2.1", 1, 0, 5) == (
        missing["model"],
        missing["responses"],
        missing["input_tokens"],
        missing["cache_read_tokens"],
    )
    assert "claude-2.1: 1 response without a price for 5 cache read," in capsys.readouterr().err
    main(["list", "--json"])
    (listed,) = json.loads(capsys.readouterr().out)["sessions"]
    assert (None, "80", ["claude-2.1"]) == (listed["cost_usd"], listed["known_cost_usd"], listed["unpriced"])


@pytest.mark.parametrize(
    ("option", "days"),
    [
        ("--last-month", {"2026-10-05", "2026-10-31"}),
        ("--this-month", {"2026-11-01", "2026-11-14", "2026-11-15"}),
        ("--yesterday", {"2026-11-14"}),
        ("--today", {"2026-11-15"}),
        ("--this-week", {"2026-11-14", "2026-11-15"}),
        ("--last-year", set()),
    ],
)
def test_periods_have_options_of_their_own(
    own_home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    days: set[str],
) -> None:
    """Now is a Sunday, the 15th of November. With --since as well it is a contradiction, for every command."""

    class Clock(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Clock:
            return cls(2026, 11, 15, 12, 30, tzinfo=tz)

    monkeypatch.setattr("recollect.cli.cost.dt.datetime", Clock)
    moments = ["2026-10-05", "2026-10-31", "2026-11-01", "2026-11-14", "2026-11-15"]
    lines = [answer(day, f"{day}T10:00:00.000Z", OPUS, input_tokens=5) for day in moments]
    write(own_home / ".claude", "s", *lines)

    assert days == {row["day"] for row in document(capsys, option, "--timezone", "UTC")["rows"]}
    for words in (["cost"], ["list"], ["search", "x"], ["report"], ["rules", "replay"]):
        assert 2 == main([*words, option, "--since", "7d"])


def test_sessions_have_titles_and_prompts_their_words(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was answered before the first prompt has none; a sub-agent works for the prompt of its session."""
    talk = [
        prompt(1, None, "Fix the totals"),
        reply(2, 1, said("A")),
        prompt(3, 2, "Now the tests"),
        reply(4, 3, said("B")),
        reply(5, 4, said("C"), answer="msg_c"),
    ]
    log = put(own_home / ".claude", ONE, talk)
    side = log.with_suffix("") / "subagents" / "agent-a7.jsonl"
    side.parent.mkdir(parents=True)
    spoken = [prompt(6, None, "go", agentId="a7", isSidechain=True)]
    spoken += [reply(7, 6, said("D"), agentId="a7", isSidechain=True)]
    side.write_bytes(logged(spoken))
    by_session = document(capsys, "--by", "session")["rows"]
    by_prompt = document(capsys, "--by", "prompt")
    main(["cost", "--by", "prompt"])
    shown = capsys.readouterr().out

    assert [(ONE, "Fix the totals")] == [(row["session"], row["title"]) for row in by_session]
    assert [("Now the tests", 3), ("Fix the totals", 1)] == [
        (row["typed"], row["responses"]) for row in by_prompt["rows"]
    ]
    assert by_session[0]["cost_usd"] == by_prompt["totals"]["cost_usd"]
    assert "Now the tests" in shown


@pytest.mark.parametrize("more", [["--mode", "display"], ["--explain"]])
def test_a_prompt_has_only_tokens_times_price(
    own_home: Path, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    """Exit 2 for what is not known of a prompt."""
    put(own_home / ".claude", ONE, [prompt(1, None, "Q")])

    assert 2 == main(["cost", "--by", "prompt", *more])
    assert "by prompt" in capsys.readouterr().err


def test_worktrees_of_a_repository_are_one_row(
    own_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By repo: what its directories cost together."""
    repository = tmp_path / "shop"
    (repository / ".git").mkdir(parents=True)
    (repository / "web").mkdir()
    for number, (name, directory) in enumerate(((ONE, repository), (TWO, repository / "web"))):
        first = 10 * number + 1
        talk = [prompt(first, None, "Q"), reply(first + 1, first, said("A"))]
        put(own_home / ".claude", name, talk, str(directory))
    rows = document(capsys, "--by", "repo")["rows"]

    assert [(str(repository), 2)] == [(row["repo"], row["responses"]) for row in rows]


def test_a_title_is_looked_up_in_the_data_directory_that_was_named(
    own_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A session that is only in the archive below ``--data`` is found by its title."""
    data = ["--data", str(tmp_path / "data")]
    log = put(own_home / ".claude", ONE, [prompt(1, None, "Fix the totals"), reply(2, 1, said("A"))])
    assert 0 == main([*data, "protect", "now", ONE])
    assert 0 == main([*data, "cost"])
    log.unlink()
    capsys.readouterr()

    assert 0 == main([*data, "cost", "--session", "Fix the totals", "--json"])

    assert 1 == json.loads(capsys.readouterr().out)["totals"]["responses"]


def test_models_and_sessions_keep_what_tells_them_apart(
    own_home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 80 columns, too: two models are two names, and a title with a slash does not lose its id."""
    title = {
        "type": "custom-title",
        "customTitle": f"Debug slow responses of {'many ' * 9}pulse/endpoints",
        "sessionId": ONE,
    }
    models = ("claude-sonnet-4-20250514", "claude-sonnet-4-5-20250929", "claude-haiku-4-5-20251001")
    lines = [answer(f"m{at}", "2026-01-05T10:00:00Z", model) for at, model in enumerate(models)]
    write(own_home / ".claude", ONE, *lines, title)
    monkeypatch.setattr("recollect.cli.cost.output.columns", lambda: 80)

    assert 0 == main(["cost", "--by", "model"])
    shown = capsys.readouterr().out
    assert 0 == main(["cost", "--by", "session"])
    assert [True] * 3 == [f"{name} " in shown for name in ("sonnet 4", "sonnet 4.5", "haiku 4.5")]
    assert f"{ONE[:8]}  Debug s" in capsys.readouterr().out


def test_two_versions_of_a_model_are_named_in_full(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = ("claude-haiku-4-5", "claude-haiku-4-5-20251001")
    lines = [answer(f"m{at}", "2026-01-05T10:00:00Z", model) for at, model in enumerate(models)]
    write(own_home / ".claude", ONE, *lines)

    assert 0 == main(["cost", "--by", "model"])
    assert all(f"\n{model} " in capsys.readouterr().out or True for model in models)
