"""Budgets: the cost report's amounts, warnings that are given once, and what becomes of them."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest

from recollect.ask.budget import quick
from recollect.ask.budget.budget import seen_limits
from recollect.ask.cost.local_day import day_span, week_span
from recollect.ask.cost.report import costs
from recollect.cli import budget
from recollect.cli.main import main
from recollect.errors import UsageError
from recollect.index import glimpse
from recollect.index.access import open_index
from recollect.store import turns
from recollect.store.config_file import budget_settings
from recollect.store.own_settings import price_list
from tests.small_home import ONE, TWO, lines, prompt, put, reply, said

NOW = 1_794_744_420.0  # 2026-11-15T12:07:00Z, a Sunday
PICO = 10**12
BUDGET = """
[budget]
day = "1.00"
week = 10
warn = [50, 80, 100]
"""


def answer(number: int, at: float, model: str = "claude-sonnet-4-5-20250929") -> dict[str, Any]:
    """0.30 dollars with Sonnet 4.5."""
    entry = reply(number, number - 1, said("A"))
    entry["message"]["model"] = model
    entry["message"]["usage"] = {"input_tokens": 100_000}
    moment = dt.datetime.fromtimestamp(at, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return {**entry, "timestamp": moment}


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def home(own_home: Path) -> Path:
    """Today 0.90 in two projects, one of them through an agent; on Thursday 0.30; last Sunday 0.30; one without a price."""
    home = own_home / ".claude"
    talk = [answer(2, NOW - 60), answer(4, NOW - 3 * 86_400), answer(6, NOW - 7 * 86_400)]
    log = put(home, ONE, [prompt(1, None, "Q"), *talk], cwd="/srv/shop")
    side = log.with_suffix("") / "subagents"
    side.mkdir(parents=True)
    own = {**answer(8, NOW - 120), "isSidechain": True, "agentId": "a", "sessionId": ONE, "cwd": "/elsewhere"}
    (side / "agent-a.jsonl").write_bytes(lines([own]))
    put(home, TWO, [answer(10, NOW - 3600), answer(12, NOW - 90, "claude-nobody-knows")], cwd="/srv/blog")
    return home


def configured(own_home: Path, text: str) -> str:
    path = own_home / "xdg-config" / "recollect" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


@pytest.fixture
def index(home: Path) -> apsw.Connection:
    with open_index([home]) as opened:
        path = str(opened.path)
    return glimpse.opened(path)


Check = Callable[..., list[str]]


@pytest.fixture
def check(index: apsw.Connection, own_home: Path) -> Check:
    def run(text: str = BUDGET, now: float = NOW) -> list[str]:
        settings = budget_settings(configured(own_home, text))
        assert settings is not None
        given = quick.warned(index, settings, price_list(), now, str(own_home / "data"))[1]
        return [f"{one.label} {one.threshold}" for one in given]

    return run


# --- amounts ------------------------------------------------------------------------------


def test_the_quick_amounts_are_those_of_the_cost_report(
    home: Path, index: apsw.Connection, own_home: Path
) -> None:
    """By day, week, project by name and by directory, model by a part of its name: to the pico-dollar."""
    scopes = "".join(
        f"[budget.{scope}.{name!r}]\nday = 5\nweek = 5\n"
        for scope, name in (("projects", "shop"), ("projects", "/srv/blog"), ("projects", "none"), ("models", "sonnet"),
                            ("models", "nobody"), ("models", "claude-sonnet-4-5-20250929"))
    )  # fmt: skip
    settings = budget_settings(configured(own_home, BUDGET + scopes.replace("'", '"')))
    assert settings is not None
    quickly = quick.budget_states(index, settings, price_list(), NOW)
    with open_index([home]) as opened:
        for state in quickly:
            rule, days = state.rule, day_span(NOW) if state.rule.period == "day" else week_span(NOW)
            since, until = (dt.datetime.fromtimestamp(at * 900, dt.UTC) for at in days[:2])
            names: dict[str, Any] = {rule.scope: rule.name} if rule.scope in ("project", "model") else {}
            report = costs(opened=opened, since=since, until=until, **names)
            unpriced = [one.model for one in report.unpriced]
            assert (report.totals.pico_usd, unpriced) == (state.spent, state.unpriced), rule.label
    by_label = {one.rule.label: one.spent * 10 // PICO for one in quickly}
    assert (9, 12) == (by_label["day"], by_label["week"])
    assert (6, 3, 0) == tuple(by_label[f"day of project {name}"] for name in ("shop", "/srv/blog", "none"))
    assert "2026-W46" == quickly[1].span
    assert ["claude-nobody-knows"] == quickly[0].unpriced


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[budget]\nday = "1e3"', "budget.day '1e3' is not an amount"),
        ("[budget]\nday = -1", "is not an amount"),
        ("[budget]\nday = true", "is not an amount"),
        ("[budget]\nday = 0", "is nothing"),
        ('[budget]\nday = "0.0000000000001"', "is not an amount"),
        ("[budget]\nmonth = 5", "budget.month is not known"),
        ("[budget]\nwarn = [0]", "is not a list of whole per cents"),
        ("[budget]\nwarn = 80", "is not a list of whole per cents"),
        ("[budget]\nburn_hours = 25", "hours from 1 to 24"),
        ("[budget]\nprojects = 5", "budget.projects is not a section"),
        ("[budget.models.opus]\nmonth = 5", "something else than day and week"),
        ("budget = 5", "budget is not a section"),
        ("[budget", "not a TOML file"),
    ],
)
def test_settings_that_cannot_be_used_are_named(own_home: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        budget_settings(configured(own_home, text))
    assert said in refused.value.message
    assert "token-x" not in str(refused.value)


def test_amounts_are_taken_digit_by_digit(own_home: Path) -> None:
    """0.1 as a binary float would be another number."""
    settings = budget_settings(configured(own_home, '[budget]\nday = 0.1\nweek = "0.000000000001"\n'))
    assert settings is not None
    assert [PICO // 10, 1] == [rule.limit for rule in settings.rules]


# --- once ---------------------------------------------------------------------------------


def test_each_warning_is_given_once(check: Check) -> None:
    """The highest threshold stands for the lower ones; a raised budget and a new day warn again."""
    assert ["day 80"] == check()
    assert [] == check()
    assert ["day 50"] == check(BUDGET.replace('"1.00"', "1.50"))
    assert [] == check(BUDGET.replace('"1.00"', "1.50"))
    assert ["day 100"] == check(BUDGET.replace('"1.00"', '"0.90"'))
    assert [] == check(now=NOW + 86_400)
    assert ["week 100"] == check("[budget]\nweek = 1\n")


def test_eight_sessions_at_once_give_one_warning(home: Path, own_home: Path) -> None:
    """Eight hooks as eight clients start them: one of them says it, and one mark of each threshold is left."""
    configured(own_home, '[budget]\nday = "0.01"\n')
    with open_index([home]) as opened:
        os.utime(opened.path.with_suffix(".lock"), (NOW, NOW))
    code = (
        f"import sys, time; time.time = lambda: {NOW};"
        " from recollect.cli.main import main; sys.exit(main(['limits', '--hook']))"
    )

    def hook(_: int) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, input="{}", check=True
        )
        return done.stdout

    with ThreadPoolExecutor(8) as pool:
        answers = [json.loads(text) for text in pool.map(hook, range(8))]

    said_once = [one["systemMessage"] for one in answers if one]
    assert 1 == len(said_once)
    assert "budget of the day" in said_once[0]
    keys = turns.marks(str(own_home / "xdg-data" / "recollect"))
    assert [80, 100] == sorted(int(key.rpartition("-")[2]) for key in keys)


def test_a_hook_answers_whatever_is_wrong(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No settings, wrong settings, no index: nothing is said, and the client goes on."""
    for text in (None, "[budget", BUDGET):
        if text is not None:
            configured(own_home, text)
        assert 0 == main(["limits", "--hook"])
        assert {} == json.loads(capsys.readouterr().out)


def test_burning_for_hours_on_end_is_a_warning_of_its_own(check: Check) -> None:
    """Each of the last hours must be over it; once a day."""
    text = '[budget]\nburn = "0.30"\nburn_hours = {}\n'
    assert ["hour 1"] == check(text.format(1))
    assert [] == check(text.format(1))
    assert [] == check(text.format(3))
    assert [] == check(text.format(1).replace("0.30", "0.61"))


def test_marks_of_last_season_are_removed(own_home: Path) -> None:
    data = str(own_home / "data")
    for key in ("old", "new"):
        assert turns.mark(data, key, b"{}")
    os.utime(turns.mark_path(data, "old"), (1, 1))
    turns.forget_old(data, time.time())
    assert ["new"] == turns.marks(data)


# --- rate limits, status line, command ----------------------------------------------------


def test_rate_limits_are_recorded_when_they_change(own_home: Path) -> None:
    """Eight sessions report the same: one line. Another per cent or another window of time is another."""
    data = str(own_home / "data")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: turns.record_limits(data, [("five_hour", 42.5, 1000.0)], NOW), range(8)))
    turns.record_limits(data, [("five_hour", 43.0, 1000.0), ("seven_day", 7.0, None)], NOW)

    assert [("five_hour", 42, 1000), ("five_hour", 43, 1000), ("seven_day", 7, None)] == [
        (one.window, one.used_percentage, one.resets_at) for one in seen_limits(data)
    ]


def test_the_status_line_shows_the_tightest_budget_and_warns(
    home: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    from recollect.cli import statusline

    with open_index([home]):
        pass
    payload = {"rate_limits": {"five_hour": {"used_percentage": 12, "resets_at": NOW + 100}}}
    monkeypatch.setattr(statusline, "_input", lambda: json.dumps(payload).encode())

    def line() -> str:
        with monkeypatch.context() as then:
            then.setattr(time, "time", lambda: NOW)
            assert 0 == statusline.main(["--no-refresh"], [], None)
        return str(capsys.readouterr().out)

    assert "budget" not in line()
    configured(own_home, BUDGET)
    assert "| budget day 90%" in line()
    assert "| budget day 90%" in line()
    configured(own_home, BUDGET.replace("1.00", "100"))
    assert "budget" not in line()
    configured(own_home, "[budget")
    assert "[budget] cannot be used" in line()
    assert [12] == [one.used_percentage for one in seen_limits(str(own_home / "xdg-data" / "recollect"))]


def test_the_command_shows_the_state(
    home: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 1 where a budget is spent; without settings it shows the windows and says what to write."""
    assert 0 == main(["limits"])
    said = capsys.readouterr().out
    assert said.startswith("5 hours")
    assert "\n7 days" in said
    assert "No budget is set: in " in said
    monkeypatch.setattr(budget, "time", SimpleNamespace(time=lambda: NOW))
    configured(own_home, '[budget]\nday = "0.20"\n[budget.persons.anna]\nday = 1\n')
    assert 1 == main(["limits", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in document["windows"]] == ["5 hours", "7 days"]
    (state,) = document["budgets"]
    assert ("day", "0.9", "0.2", 450) == tuple(
        state[key] for key in ("budget", "spent_usd", "limit_usd", "percent")
    )
    assert ["budgets of persons are checked with --team"] == document["notes"]
    configured(own_home, "[budget]\nday = 100\n")
    assert 0 == main(["limits"])
    assert "day" in capsys.readouterr().out


def test_budgets_of_persons_come_from_the_team_server(
    home: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from recollect.cli import budget

    monkeypatch.setattr(budget, "person_costs", lambda *_: {"anna": (5 * PICO, []), "ben": (1, [])})
    configured(own_home, "[budget.persons.anna]\nweek = 10\n[budget.persons.clara]\nday = 1\n")
    assert 0 == main(["limits", "--json", "--team"])
    found = {one["name"]: one["spent_usd"] for one in json.loads(capsys.readouterr().out)["budgets"]}
    assert {"anna": "5", "clara": "0"} == found


def test_a_budget_of_a_person_warns_once(
    home: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A timer runs ``budget --team``. Budgets of this machine are left to the status line and the hook."""
    from recollect.cli import budget

    monkeypatch.setattr(budget, "person_costs", lambda *_: {"anna": (9 * PICO, [])})
    configured(own_home, '[budget]\nday = "0.01"\n[budget.persons.anna]\nweek = 10\n')
    main(["limits", "--team"])
    out, err = capsys.readouterr()
    assert "week of person anna: 90% spent, $9.00 of $10.00" in err
    assert "warned: " in out
    main(["limits", "--team"])
    assert "" == capsys.readouterr().err
