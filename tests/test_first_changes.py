"""Three changes that somebody makes first, each in a copy of the tree, in the files that AGENTS.md names.

A change that needs another file as well fails here: the map in AGENTS.md is then to be mended, or the code.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.small_home import ONE, prompt, put, reply, said

ROOT = Path(__file__).resolve().parents[1]
# Asks the page of the copied program over a home; prints the answer to each path.
_PAGE = """
import json, sys
from pathlib import Path
from tests.web.pages import Browser, served
home, data, *paths = sys.argv[1:]
with Browser(served(Path(home), Path(data))) as browser:
    print(json.dumps([browser.get(path) for path in paths]))
"""


class CopiedTree:
    """A copy of the program, of the tools that generate from it, and of what they write; and a home to try it on."""

    def __init__(self, place: Path) -> None:
        self.root, self.home, self._data = place / "tree", place / "claude", place / "data"
        for name in ("src", "tools", "docs/reference"):
            shutil.copytree(ROOT / name, self.root / name, ignore=shutil.ignore_patterns("static"))
        self._data.mkdir()

    def change(self, file: str, *, before: str, new: str) -> None:
        """Put new lines before one that is there."""
        path = self.root / file
        text = path.read_text("utf-8")
        assert text.count(before) == 1, (file, before)
        path.write_text(text.replace(before, new + before), "utf-8")

    def ran(self, *words: str) -> subprocess.CompletedProcess[str]:
        # Its own copy of the program, and the helpers of these tests.
        paths = os.pathsep.join(map(str, (self.root / "src", ROOT)))
        return subprocess.run(
            [sys.executable, *words],
            env={**os.environ, "PYTHONPATH": paths},
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )

    def said(self, *words: str) -> str:
        done = self.ran("-m", "recollect", "--home", str(self.home), "--data", str(self._data), *words)
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    def document(self, *words: str) -> Any:
        return json.loads(self.said(*words, "--json"))

    def on_page(self, *paths: str) -> list[Any]:
        done = self.ran("-c", _PAGE, str(self.home), str(self._data), *paths)
        assert done.returncode == 0, done.stderr
        answers: list[Any] = json.loads(done.stdout)
        return answers


@pytest.fixture
def tree(tmp_path: Path) -> CopiedTree:
    return CopiedTree(tmp_path)


def test_a_price_is_added_in_one_place(tree: CopiedTree) -> None:
    """A row of OWN_MODELS and ``make prices``: cost, list and the page have it; before, the model has no price."""
    answer = reply(2, 1, said("A1"))
    answer["message"]["model"] = "claude-novel-9"
    put(tree.home, ONE, [prompt(1, None, "Q1"), answer])
    before = tree.document("cost")
    tree.change(
        "tools/build_price_table.py",
        before='    "claude-mythos-5": (\n',
        new='    "claude-novel-9": (("4", "20", "5", "8", "0.40"), ("us",), "a newcomer"),\n',
    )
    stale = tree.ran("tools/build_price_table.py", "--check").returncode
    made = tree.ran("tools/build_price_table.py")
    fresh = tree.ran("tools/build_price_table.py", "--check").returncode
    cost = tree.document("cost")["totals"]["cost_usd"]
    (listed,) = tree.document("list")["sessions"]
    (page,) = tree.on_page("/api/sessions")

    assert (0, True, 0) == (made.returncode, stale != 0, fresh), made.stderr
    assert ["claude-novel-9"] == [one["model"] for one in before["unpriced"]]
    assert ["0.00044"] * 3 == [cost, listed["cost_usd"], page["sessions"][0]["cost_usd"]]
    assert "a newcomer" in tree.said("cost", "--explain")


def test_a_check_is_added_in_its_family(tree: CopiedTree) -> None:
    """A rule beside its like and a row of CODES: check, its list of codes, the library, the page and the reference have it."""
    entry = prompt(1, None, "Q1")
    entry["timestamp"] = "1999-12-31T23:59:59.000Z"
    put(tree.home, ONE, [entry])
    tree.change(
        "src/recollect/model/checks/times.py",
        before='        before = times.get(node.parent or "")\n',
        new='        if moment.year < 2000:\n            yield RuleViolation("time-long-ago", "of another century", node.offset, node.uuid)\n',
    )
    tree.change(
        "src/recollect/model/checks/__init__.py",
        before='    "time-order": CheckRule(',
        new='    "time-long-ago": CheckRule(_WARNING, "a time before 2000", "loads it", _UNSEEN),\n',
    )
    stale = tree.ran("tools/build_check_reference.py", "--check").returncode
    made = tree.ran("tools/build_check_reference.py")
    found = [one["code"] for one in tree.document("check", ONE)["findings"]]
    asked = (
        f"import recollect; print([one.code for one in recollect.Home({str(tree.home)!r}).check().findings])"
    )
    (page,) = tree.on_page(f"/api/sessions/{ONE}/findings")

    assert (0, True) == (made.returncode, stale != 0), made.stderr
    assert "time-long-ago" in found
    assert "of another century" in tree.said("check", ONE)
    assert "time-long-ago" in [one["code"] for one in tree.document("check", "--codes")["codes"]]
    assert "time-long-ago" in tree.ran("-c", asked).stdout
    assert "time-long-ago" in [one["code"] for one in page["findings"]]
    assert "| `time-long-ago` |" in (tree.root / "docs/reference/checks.md").read_text("utf-8")


def test_a_column_is_added_to_list(tree: CopiedTree) -> None:
    """A fact of a listed session, its mark in rows and its member in documents: list, the overview, JSON and CSV have it."""
    put(tree.home, ONE, [prompt(1, None, "Q1"), reply(2, 1, said("A1"))])
    tree.change(
        "src/recollect/services/list.py",
        before="    @property\n    def modified_at(self)",
        new='    @property\n    def weekday(self) -> str:\n        return f"{self.shown_at:%A}"\n\n',
    )
    tree.change(
        "src/recollect/cli/terminal/session_rows.py",
        before='    marks += [output.styled("live", "green")]',
        new="    marks += [one.weekday]\n",
    )
    documents = "src/recollect/services/documents/sessions.py"
    tree.change(documents, before="    archived: bool\n", new="    weekday: str\n")
    tree.change(documents, before="        archived=one.is_archived,\n", new="        weekday=one.weekday,\n")
    (listed,) = tree.document("list")["sessions"]
    names, row = (line.split(",") for line in tree.said("list", "--csv").splitlines())

    assert "Sunday" == listed["weekday"] == dict(zip(names, row, strict=True))["weekday"]
    assert re.search(r"Q1 .*Sunday", tree.said("list"))
    assert re.search(r"Q1 .*Sunday", tree.said())
