"""A database of OpenCode that someone else made: ``list`` comes back soon, and says what it left out."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from tests.agents import tiny_homes

# In a process of its own, so that one that never ends can be ended. The second word is how long SQLite may take.
LIST = """
import sys
from recollect.cli.main import main
from recollect.agents import databases as untouched_database
untouched_database.QUERY_SECONDS = float(sys.argv[1])
sys.exit(main(["--agent", "opencode", "list"]))
"""
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
COLUMNS = "id, message_id, session_id, time_created, time_updated, data"
# Asked of it, SQLite would build the view's rows in a size that doubles with each.
DOUBLING = "".join(
    f"CREATE VIEW v{number} AS SELECT a.* FROM {before} a, {before} b;"
    for number, before in enumerate(["project", *(f"v{number}" for number in range(30))])
)


@pytest.fixture
def database(own_home: Path) -> Path:
    path = tiny_homes.opencode_database(Path(os.environ["XDG_DATA_HOME"], "opencode"))
    with closing(sqlite3.connect(path)) as made:
        for table in ("message", "part"):
            made.execute(f"ALTER TABLE {table} ADD COLUMN time_updated INTEGER DEFAULT 1")
        made.commit()
    return path


def change(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as made:
        made.executescript(script)


def listed(seconds: float = 30) -> str:
    command = [sys.executable, "-c", LIST, str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=25, check=False)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


VIRTUAL = "it is a view or a virtual table, and not read"
SLOW = "hex(zeroblob(30000)) LIKE '%0%0%0%0%0%0%0%0%0%0%0%1'"
CASES = {
    "view": (
        f"""ALTER TABLE session RENAME TO old; CREATE VIEW session AS {ENDLESS}
            SELECT 'ses_' || i AS id, '/w' AS directory, i AS time_created FROM n""",
        f"table session: {VIRTUAL}",
    ),
    "view without a row": (
        f"ALTER TABLE part RENAME TO old; CREATE VIEW part AS {ENDLESS} SELECT old.* FROM n, old WHERE i < 0",
        f"table part: {VIRTUAL}",
    ),
    "view of other columns": (
        f"DROP TABLE part; CREATE VIEW part({COLUMNS}) AS {ENDLESS} SELECT i, i, i, i, i, i FROM n",
        f"table part: {VIRTUAL}",
    ),
    "view of events": (
        f"DROP TABLE event; CREATE VIEW event AS {ENDLESS} SELECT i AS aggregate_id, i AS seq FROM n",
        f"table event: {VIRTUAL}",
    ),
    "view by another spelling": (
        f"ALTER TABLE session RENAME TO old; {DOUBLING} CREATE VIEW Session AS SELECT * FROM v30",
        "table session: it is missing",
    ),
    "virtual table": (
        f"DROP TABLE part; CREATE VIRTUAL TABLE part USING fts5({COLUMNS})",
        f"table part: {VIRTUAL}",
    ),
    "generated column": (
        f"ALTER TABLE part ADD COLUMN more AS ({SLOW})",
        "table part: its column 'more' would be computed while it is read",
    ),
    "generated data": (
        f"""DROP TABLE message; CREATE TABLE message (id, session_id, time_created, time_updated, data AS ({SLOW}));
            INSERT INTO message VALUES ('msg_1', 'ses_0a', 1, 1)""",
        "table message: its column 'data' would be computed while it is read",
    ),
    "huge title": (
        "UPDATE session SET title = zeroblob(200000000) WHERE id = 'ses_0a'",
        "table session: a value is longer than 67,108,864 bytes",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_no_plain_row_is_left_out_and_said(database: Path, case: str) -> None:
    script, said = CASES[case]
    change(database, script)
    assert said in listed()


def test_of_a_huge_row_only_itself_is_left_out(database: Path) -> None:
    change(database, "UPDATE part SET data = zeroblob(200000000) WHERE id = 'prt_0a1'")
    for _ in range(2):
        shown = listed()
        assert "part prt_0a1: 200,000,000 bytes in one row, and 67,108,864 are read at most" in shown
        assert "about ses_0a" in shown
        assert "about ses_0b" in shown


def test_pages_that_lead_back_to_each_other_end(database: Path) -> None:
    """Some pages that all name the same ones below them are more rows than anyone could read, in a table like any other."""
    change(database, "PRAGMA journal_mode = DELETE")
    with closing(sqlite3.connect(database)) as made:
        (size,), (root,) = (
            made.execute(asked).fetchone()
            for asked in ("PRAGMA page_size", "SELECT rootpage FROM sqlite_master WHERE name = 'part'")
        )
    plant_bomb(database, size, root)
    shown = listed(seconds=0.3)
    assert "table part: reading it takes longer than it does in any sound database of this size" in shown
    # It is not tried again until it changes.
    assert "takes longer" in listed(seconds=1000)


def plant_bomb(path: Path, size: int, root: int) -> None:
    """The root of a table is on top of further pages, each of which is named by every cell of the one above it."""
    data = bytearray(path.read_bytes())
    leaf = bytes(data[(root - 1) * size : root * size])
    assert leaf[0] == 13, "a leaf of a table"
    count, levels = len(data) // size, 6
    pages = [root, *range(count + 1, count + levels + 1)]
    for page, below in pairwise(pages):
        cells = (size - 12) // 7
        start = size - 5 * cells
        head = bytes([5, 0, 0]) + cells.to_bytes(2) + start.to_bytes(2) + b"\0" + below.to_bytes(4)
        places = b"".join((start + 5 * number).to_bytes(2) for number in range(cells))
        made = (head + places).ljust(start, b"\0") + (below.to_bytes(4) + b"\x01") * cells
        data[(page - 1) * size : page * size] = made
    data += leaf
    data[28:32] = (len(data) // size).to_bytes(4)
    path.write_bytes(data)
