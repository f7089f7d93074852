"""`recollect cost --compare`: every difference from ccusage has a cause, and the causes add up."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main
from tests.small_home import ONE, TALK, TWO, prompt, put, reply, said

_MODEL = "claude-sonnet-4-5-20250929"


@pytest.fixture
def home(own_home: Path) -> Path:
    """ONE has a million tokens of each class, TWO what it always has."""
    home = own_home / ".claude"
    answer = reply(2, 1, said("A"))
    answer["message"]["usage"] = {
        "input_tokens": 1_000_000,
        "output_tokens": 1_000_000,
        "cache_creation_input_tokens": 1_000_000,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 1_000_000},
        "cache_read_input_tokens": 1_000_000,
    }
    put(home, ONE, [prompt(1, None, "Big one"), answer])
    put(home, TWO, [{**entry, "uuid": f"1{entry['uuid'][1:]}"} for entry in TALK], cwd="/srv/shop")
    return home


def report(path: Path, *sessions: dict[str, Any]) -> str:
    path.write_text(json.dumps({"sessions": sessions, "totals": {}}))
    return str(path)


def peer(name: str, cost: float, tokens: tuple[int, int, int, int]) -> dict[str, Any]:
    names = ("inputTokens", "outputTokens", "cacheCreationTokens", "cacheReadTokens")
    part = {"modelName": _MODEL, "cost": cost, **dict(zip(names, tokens, strict=True))}
    return {"sessionId": name, "totalCost": cost, "modelBreakdowns": [part]}


def compared(capsys: pytest.CaptureFixture[str], file: str) -> dict[str, Any]:
    assert 0 == main(["cost", "--compare", file, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.mark.usefixtures("home")
def test_each_cause_has_its_share(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half the output, reads counted twice, writes of an hour at the price of five minutes."""
    million = 1_000_000
    there = 3 + 7.5 + 3.75 + 0.6
    file = report(tmp_path / "r.json", peer(ONE, there, (million, million // 2, million, 2 * million)))
    found = compared(capsys, file)
    one = next(session for session in found["sessions"] if session["session"] == ONE)

    assert ("24.3", "14.85", "9.45") == tuple(
        one[key] for key in ("cost_usd", "peer_cost_usd", "difference_usd")
    )
    assert {
        "final output counts, where ccusage takes the first line of a response ($7.50)",
        "repeated lines or copies in forks that ccusage counts again (-$0.30)",
        "cache writes of one hour, which ccusage prices as those of five minutes ($2.25)",
    } == set(one["causes"])


@pytest.mark.usefixtures("home")
def test_sessions_that_one_side_lacks_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With all they cost; what differs by less than a cent agrees. The sums add up."""
    file = report(
        tmp_path / "r.json", peer("somewhere-else", 5, (1, 1, 1, 1)), peer(TWO, 0.0005, (20, 40, 0, 0))
    )
    found = compared(capsys, file)
    causes = {session["session"]: session["causes"] for session in found["sessions"]}
    difference = sum(Decimal(session["difference_usd"]) for session in found["sessions"])

    assert {ONE, "somewhere-else"} == set(causes)
    assert (1, True, True) == (
        found["equal"],
        causes[ONE][0].startswith("not in ccusage"),
        causes["somewhere-else"][0].startswith("not here"),
    )
    total = Decimal(found["cost_usd"]) - Decimal(found["peer_cost_usd"])
    assert abs(total - difference) < Decimal("0.01")


@pytest.mark.usefixtures("home")
def test_a_report_by_directory_is_compared_by_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some versions name the project's directory where others name the session."""
    million = 1_000_000
    file = report(tmp_path / "r.json", peer("-srv-app", 24.3, (million, million, million, million)))

    assert [] == [one for one in compared(capsys, file)["sessions"] if one["session"] == "-srv-app"]


@pytest.mark.usefixtures("home")
def test_the_program_itself_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the homes that are looked at; without it, the message says how to write the file."""
    assert 3 == main(["cost", "--compare", "ccusage"])
    told = capsys.readouterr().err
    file = report(tmp_path / "r.json", peer(ONE, 24.3, (1_000_000,) * 4))
    program = tmp_path / "ccusage"
    program.write_text(
        f'#!/bin/sh\n[ -d "$CLAUDE_CONFIG_DIR" ] && [ "$*" = "claude session --json --offline" ] && cat {file}\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    code = main(["cost", "--compare", "ccusage"])

    assert "ccusage claude session --json --offline > FILE" in told
    assert (0, True) == (code, "$24.30 here, $24.30 in ccusage" in capsys.readouterr().out)


@pytest.mark.parametrize("text", ["{", "{}", '{"daily": []}'])
@pytest.mark.usefixtures("home")
def test_another_report_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    """Exit 2 with the command that writes the right one."""
    (tmp_path / "r.json").write_text(text)

    assert 2 == main(["cost", "--compare", str(tmp_path / "r.json")])
    assert "ccusage claude session --json" in capsys.readouterr().err
