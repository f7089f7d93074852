"""`--csv`: the rows of the JSON document as a table, wherever a command prints one."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from recollect.cli.main import main
from tests.secret_home import token
from tests.small_home import ONE, TWO, call, lines, outcome, prompt, put, reply, said


@pytest.fixture
def home(own_home: Path) -> Path:
    """A session with an agent, a file, a todo list a prompt, a plan and a title that a spreadsheet would evaluate; one archived
    and removed."""
    home = own_home / ".claude"
    put(home, TWO, [prompt(11, None, "kept"), reply(12, 11, said("needle"))])
    main(["protect", "now"])
    main(["rm", TWO, "--apply"])
    log = put(
        home,
        ONE,
        [
            prompt(1, None, "=HYPERLINK(needle)"),
            reply(2, 1, said("needle"), call("toolu_1")),
            outcome(3, 2, "toolu_1", "text"),
        ],
    )
    side = log.with_suffix("") / "subagents" / "agent-a7.jsonl"
    side.parent.mkdir(parents=True)
    side.write_bytes(lines([prompt(9, None, "agent", agentId="a7", isSidechain=True)]))
    todos = home / "todos"
    todos.mkdir()
    (todos / f"{ONE}-agent-{ONE}.json").write_text(
        json.dumps([{"content": "one", "status": "pending", "id": "1"}])
    )
    log.write_bytes(log.read_bytes() + b"{broken\n")
    (home / "plans").mkdir()
    (home / "plans" / "calm-blue-fox.md").write_text(f"# {token('plan')}\n")
    (home / "history.jsonl").write_bytes(
        lines([{"display": "typed", "timestamp": 1_700_000_000_000, "project": "/srv/app", "sessionId": ONE}])
    )
    return home


def table(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, str]]:
    capsys.readouterr()
    main([*arguments, "--csv"])
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("command", "column", "value"),
    [
        (["list"], "id", ONE),
        (["cost", "--by", "session"], "session", ONE),
        (["search", "needle"], "session", ONE),
        (["search", "needle", "--flat"], "session", ONE),
        (["doctor"], "code", "skipped-bytes"),
        (["show", ONE, "--sub-agents"], "id", "a7"),
        (["show", "--todos"], "item.text", "one"),
        (["protect", "list"], "id", TWO),
        (["show", "--prompts"], "text", "typed"),
        (["show", "--prompts", "--by", "project"], "project", "/srv/app"),
        (["show", "--plan"], "name", "calm-blue-fox"),
        (["secrets"], "kind", "github-pat"),
        (["undo"], "subject", TWO),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_every_table_can_be_had_as_csv(
    capsys: pytest.CaptureFixture[str], command: list[str], column: str, value: str
) -> None:
    """With the names of the JSON document as headings."""
    assert value in {row[column] for row in table(capsys, *command)}


@pytest.mark.usefixtures("home")
def test_the_rows_are_those_of_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    """Money is as exact as there, and nested members are columns."""
    rows = table(capsys, "cost", "--by", "session,model")
    main(["cost", "--by", "session,model", "--json"])
    documents = json.loads(capsys.readouterr().out)["rows"]
    found = table(capsys, "search", "needle")

    assert [(row["session"], row["cost_usd"]) for row in documents] == [
        (row["session"], row["cost_usd"]) for row in rows
    ]
    assert {"prose"} == {row["best.kind"] for row in found}


@pytest.mark.usefixtures("home")
def test_no_cell_is_a_formula(capsys: pytest.CaptureFixture[str]) -> None:
    """A transcript may hold anything; a spreadsheet must not evaluate it."""
    titles = {row["title"] for row in table(capsys, "list")}

    assert "'=HYPERLINK(needle)" in titles


@pytest.mark.usefixtures("home")
def test_two_formats_at_once_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2."""
    assert 2 == main(["list", "--csv", "--json"])
    assert "exclude each other" in capsys.readouterr().err
