"""SQL over a home: the lake and the index say the same; nothing but reading is possible."""

from __future__ import annotations

import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from recollect import Home
from recollect.ask.data.query import run_sql
from recollect.errors import DamagedData, MissingExtra, NotFound, UsageError
from recollect.share.lake_export import export_lake
from tests.small_home import ONE, TWO, call, outcome, prompt, put, reply, said, state

INJECTION = "'; DROP TABLE responses; COPY responses TO 'stolen.csv'; --"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the home and the lake of all tests are: they are only read."""
    return tmp_path_factory.mktemp("query")


@pytest.fixture(scope="module")
def home(place: Path) -> Home:
    """Two sessions; a tool and a branch are named by someone who knows SQL."""
    hostile = {**call("t1"), "name": INJECTION}
    first = [
        prompt(1, None, INJECTION, gitBranch=INJECTION),
        reply(2, 1, said("A"), hostile, gitBranch=INJECTION),
    ]
    put(place / "home", ONE, [*first, outcome(3, 2, "t1", "done")])
    put(place / "home", TWO, [prompt(1, None, "Q"), reply(2, 1, said("A"), answer="msg_other")])
    return Home(place / "home", data=place / "data")


@pytest.fixture(scope="module")
def lake(home: Home, place: Path) -> Path:
    export_lake(home, place / "lake", data=place / "data")
    return place / "lake"


@pytest.fixture
def own_lake(lake: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return shutil.copytree(lake, tmp_path / "lake")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT sum(usd), sum(output) FROM responses WHERE counted",
        "SELECT day, model, count(*), sum(usd) FROM responses GROUP BY ALL ORDER BY ALL",
        "SELECT role, count(*), sum(blocks) FROM messages GROUP BY ALL ORDER BY ALL",
        "SELECT name, status, session, called_at, day FROM tool_calls ORDER BY ALL",
        "SELECT id, project, first_at, responses, usd, day FROM sessions ORDER BY ALL",
        "SELECT s.id, count(*) FROM Sessions s JOIN messages m ON m.session = s.id GROUP BY ALL ORDER BY ALL",
    ],
)
def test_the_lake_and_the_index_give_the_same_rows(home: Home, lake: Path, text: str) -> None:
    stored, current = (run_sql(text, home=home, lake=place, limit=0) for place in (lake, None))
    assert stored.rows == current.rows
    assert stored.rows
    assert stored.columns == current.columns


def test_the_sum_is_the_total_of_the_cost_report(home: Home, lake: Path) -> None:
    for place in (lake, None):
        assert [(home.costs().totals.usd,)] == run_sql(
            "SELECT sum(usd) FROM responses", home=home, lake=place, limit=0
        ).rows


@pytest.mark.parametrize(
    "text",
    [
        "COPY responses TO 'OUT/stolen.csv'",
        "COPY (SELECT 1) TO 'OUT/stolen.parquet' (FORMAT parquet)",
        "EXPLAIN ANALYZE COPY responses TO 'OUT/stolen.csv'",
        "EXPORT DATABASE 'OUT/stolen'",
        "ATTACH 'OUT/stolen.db'",
        "INSTALL httpfs",
        "LOAD 'OUT/evil.duckdb_extension'",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "PRAGMA database_list",
        "CALL pragma_version()",
        "CREATE TABLE stolen AS SELECT 1",
        "INSERT INTO responses VALUES (1)",
        "DELETE FROM responses",
        "DROP VIEW responses",
        "SELECT 1; COPY responses TO 'OUT/stolen.csv'",
        "SELECT * FROM read_text('OUT/secret.txt')",
        "SELECT * FROM read_csv('OUT/secret.txt')",
        "SELECT * FROM read_blob('OUT/*')",
        "SELECT * FROM 'OUT/secret.csv'",
        "SELECT * FROM glob('OUT/*')",
        "SELECT * FROM read_parquet('OUT/lake/responses/**/*.parquet')",
        "SELECT * FROM read_json('http://127.0.0.1:9/x')",
        "SELECT * FROM sqlite_scan('OUT/secret.db', 'x')",
        "SELECT * FROM query('COPY responses TO ''OUT/stolen.csv''')",
        "SELECT getenv('HOME')",
        "SELECT set_config('enable_external_access', 'true')",
        "SELECT read_file('OUT/secret.txt')",
        "SELECT (SELECT content FROM read_text(['OUT/secret.txt']))",
        "FROM query_table('OUT/secret.csv')",
        "FROM query('FROM read_text(''OUT/secret.txt'')')",
        "FROM json_execute_serialized_sql(json_serialize_sql('FROM ''OUT/secret.csv'' x'))",
        "FROM read_duckdb('OUT/secret.db', table_name='t')",
        "FROM sniff_csv('OUT/secret.csv')",
        "FROM parquet_metadata('OUT/lake/responses/**/*.parquet')",
        "FROM read_blob('/proc/self/environ')",
        "FROM read_csv('file:OUT/secret.csv')",
        "FROM 's3://bucket/x.parquet'",
        "FROM postgres_scan('host=127.0.0.1', 'public', 't')",
        'TABLE "OUT/secret.csv"',
        "DESCRIBE 'OUT/secret.csv'",
        "PIVOT (FROM read_csv('OUT/secret.csv')) ON a USING count(*)",
        "EXPLAIN ANALYZE SELECT * FROM 'OUT/secret.csv'",
        "WITH x AS (COPY (SELECT 1) TO 'OUT/c.csv') FROM x",
        "FROM (COPY (SELECT 1) TO 'OUT/d.csv')",
        "FROM enable_logging('QueryLog', storage = 'file', storage_path = 'OUT/log')",
        "FROM enable_profiling(format = 'json', save_location = 'OUT/profile.json')",
        "FROM register_external_resource('x', 'y', MAP {'a': 'b'}, 'c', 'd', 'e')",
        "FROM arrow_scan(1::UBIGINT::POINTER, 1::UBIGINT::POINTER, 1::UBIGINT::POINTER)",
        "FROM pandas_scan(1)",
        "SET VARIABLE x = (SELECT content FROM read_text('OUT/secret.txt'))",
        "SET allowed_directories = ['/']",
        "RESET enable_external_access",
        "PREPARE x AS COPY (SELECT 1) TO 'OUT/e.csv'",
        "CREATE SECRET x (TYPE s3, KEY_ID 'x')",
        "IMPORT DATABASE 'OUT'",
        "UPDATE EXTENSIONS",
        "FORCE INSTALL httpfs FROM 'OUT'",
        "SELECT * FROM local_table",
        "SELECT nosuch FROM responses",
        "SELEC 1",
        "",
        ";",
    ],
)
def test_nothing_but_reading_these_tables_is_possible(home: Home, lake: Path, place: Path, text: str) -> None:
    """A typed error; no file is made, changed or read."""
    local_table = import_module("pyarrow").table({"x": [1]})  # DuckDB would find it by its name
    (place / "secret.txt").write_text("the secret")
    (place / "secret.csv").write_text("the,secret")
    before = state(place)
    with pytest.raises(UsageError) as refused:
        run_sql(text.replace("OUT", str(place)), home=home, lake=lake, limit=0)

    assert "the secret" not in str(refused.value)
    assert before == state(place)
    assert local_table.num_rows == 1


class Renamed:
    """A connection of an engine that has another name for one setting."""

    def __init__(self, real: Any, setting: str) -> None:
        self.real, self.setting = real, setting

    def __enter__(self) -> Renamed:
        return self

    def __exit__(self, *_: object) -> None:
        self.real.close()

    def execute(self, text: str) -> Any:
        return self.real.execute(text.replace(self.setting, f"{self.setting}_2"))


@pytest.mark.parametrize("setting", ["enable_external_access", "lock_configuration"])
def test_an_engine_that_cannot_be_closed_off_runs_no_query(
    home: Home, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    """Two settings hold everything else: where a version has no such setting, nothing is run."""
    duckdb = import_module("duckdb")
    connect = duckdb.connect
    monkeypatch.setattr(duckdb, "connect", lambda _: Renamed(connect(":memory:"), setting))
    with pytest.raises(UsageError, match="cannot be kept from files"):
        run_sql("SELECT 1", home=home, lake=None, limit=0)


def test_what_a_transcript_says_is_data(home: Home, lake: Path) -> None:
    """Names that would end a text in a query come back as they are, from both sources."""
    for place in (lake, None):
        assert [(INJECTION,)] == run_sql("SELECT name FROM tool_calls", home=home, lake=place, limit=0).rows
        assert (INJECTION,) in run_sql("SELECT branch FROM responses", home=home, lake=place, limit=0).rows


def test_rows_are_cut_at_the_limit(home: Home, lake: Path) -> None:
    found = run_sql("SELECT uuid FROM messages", home=home, lake=lake, limit=2)
    assert (2, True) == (len(found.rows), found.truncated)
    assert not run_sql("SELECT uuid FROM messages", home=home, lake=lake, limit=5).truncated


def test_a_lake_that_is_missing_or_damaged_is_said(home: Home, own_lake: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no lake"):
        run_sql("SELECT * FROM responses", home=home, lake=tmp_path / "none", limit=0)
    file = next((own_lake / "responses").rglob("*.parquet"))
    file.write_bytes(b"PAR1 no longer")
    with pytest.raises(DamagedData, match="responses is missing or altered"):
        run_sql("SELECT * FROM responses", home=home, lake=own_lake, limit=0)
    file.unlink()
    with pytest.raises(DamagedData, match="responses is missing or altered"):
        run_sql("SELECT * FROM responses", home=home, lake=own_lake, limit=0)


def test_an_older_file_reads_as_null_where_it_lacks_a_column(home: Home, own_lake: Path) -> None:
    parquet = import_module("pyarrow.parquet")
    for path in (own_lake / "tool_calls").rglob("*.parquet"):
        parquet.write_table(parquet.ParquetFile(path).read().drop_columns(["in_background"]), path)
    found = run_sql("SELECT name, in_background FROM tool_calls", home=home, lake=own_lake, limit=0)
    assert [(INJECTION, None)] == found.rows


def test_without_duckdb_the_extra_is_named(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtra, match="duckdb"):
        run_sql("SELECT 1", home=home, lake=None, limit=0)
