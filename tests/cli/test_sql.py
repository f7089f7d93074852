"""``recollect data sql`` on the command line: tables that fit, JSON without lost digits, errors with a next step."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from recollect.ask.data.query import SqlColumn, SqlResult
from recollect.cli.main import main
from recollect.cli.sql import table_lines
from recollect.cli.terminal.text import width

SUM = "SELECT sum(usd) AS usd, count(*) AS count FROM responses"


def sql(tmp_path: Path, *words: str) -> int:
    return main(["--home", ":sample", "--data", str(tmp_path), "data", "sql", *words])


def test_json_has_every_digit_and_csv_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert 0 == main(["--home", ":sample", "--data", str(tmp_path), "cost", "--json"])
    total = json.loads(capsys.readouterr().out)["totals"]
    assert 0 == sql(tmp_path, SUM, "--json")
    document = json.loads(capsys.readouterr().out)
    assert [[total["cost_usd"], total["responses"]]] == document["rows"]
    assert ["DECIMAL(38,12)", "BIGINT"] == [one["type"] for one in document["columns"]]
    assert 0 == sql(tmp_path, SUM, "--csv")
    assert f"usd,count\n{total['cost_usd']},{total['responses']}\n" == capsys.readouterr().out


def test_the_lake_is_read_where_there_is_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sql(tmp_path, SUM, "--json")
    assert "the index and the logs" == json.loads(capsys.readouterr().out)["source"]
    main(["--home", ":sample", "--data", str(tmp_path), "data", "parquet", "--json"])
    lake = json.loads(capsys.readouterr().out)["output"]
    sql(tmp_path, SUM, "--json")
    assert lake == json.loads(capsys.readouterr().out)["source"]
    sql(tmp_path, SUM, "--json", "--no-lake")
    assert "the index and the logs" == json.loads(capsys.readouterr().out)["source"]
    assert 0 == sql(tmp_path / "other", SUM, "--lake", lake)
    assert "from the lake of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["COPY responses TO 'x'"], "only reads, and COPY does not", 2),
        (["SELECT 1", "--limit", "-1"], "less than none", 2),
        (["SELECT 1", "--lake", "x", "--no-lake"], "exclude each other", 2),
        (["SELECT count(*) FROM sessions", "--lake", "none"], "there is no lake", 3),
        (["SELECT now()"], "a time with a zone", 2),
        (["SELECT cost_usd FROM responses"], '"pico_usd"', 2),
        (["SELECT count(*) FROM response"], 'Did you mean "responses"?', 2),
    ],
)
def test_a_refusal_names_the_next_step(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], said: str, code: int
) -> None:
    assert code == sql(tmp_path, *words)
    message = capsys.readouterr().err
    assert said in message
    assert "Traceback" not in message


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM range(1000000000000000)",
        "SELECT count(*) FROM range(100000000) AS a, range(100000000) AS b WHERE a.range * b.range = 7",
    ],
)
def test_a_query_without_an_end_is_ended(tmp_path: Path, query: str) -> None:
    """In a process of its own, which the test can end."""
    code = (
        "import sys; from recollect.cli.main import main; from recollect.ask.data import query\n"
        "query.QUERY_SECONDS = 0.5\n"
        "sys.exit(main(['--home', ':sample', '--data', *sys.argv[1:]]))"
    )
    command = [sys.executable, "-c", code, str(tmp_path), "data", "sql", query, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert 5 == done.returncode
    assert "the query takes more than 0.5 s" in done.stdout + done.stderr
    assert "select fewer sessions or days" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_cut_rows_are_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sql(tmp_path, "SELECT uuid FROM messages", "--limit", "3")
    shown = capsys.readouterr()
    assert 4 == len(shown.out.splitlines())
    assert "only the first 3 rows" in shown.err


def test_a_table_fits_and_shows_what_a_terminal_would_obey() -> None:
    """Names are shortened, figures are not; too many columns stand below each other."""
    columns = [
        SqlColumn("project", "VARCHAR"),
        SqlColumn("text", "VARCHAR"),
        SqlColumn("usd", "DECIMAL(38,12)"),
    ]
    rows = [("/srv/" + "deep/" * 30, "\x1b]0;title\x07" + "word " * 40, 12345)]
    lines = list(table_lines(SqlResult("", columns, rows, False), 80))
    assert 2 == len(lines)
    assert all(width(line) <= 80 for line in lines)
    assert lines[1].endswith("12345")
    assert "\x1b" not in "".join(lines)
    many = SqlResult(
        "", [SqlColumn(f"column_{at}", "VARCHAR") for at in range(20)], [("value " * 30,) * 20] * 2, False
    )
    lines = list(table_lines(many, 80))
    assert 41 == len(lines)
    assert all(width(line) <= 80 for line in lines)
