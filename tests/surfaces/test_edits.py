"""What a session of any agent changed is the same in `files`, on the page and in exported HTML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from recollect import Home
from tests.agents import tiny_homes
from tests.needs import TRANSCRIPTS
from tests.share.export.html_pages import Page
from tests.surfaces.case import Case
from tests.web.pages import Browser, served

_SAMPLES = ("codex/0.58.0/tools/.codex", "gemini-0.61.0/.gemini", "qwen-0.24.4/.qwen")
_OPENCODE = ("opencode-1.18.33/data/opencode", "opencode-1.2.27/data/opencode")
_PATCH = "*** Begin Patch\n*** Add File: a.py\n+1\n+2\n*** Update File: b.py\n@@\n-old\n+new\n*** End Patch"


def patched(home: Path) -> Path:
    """A home of Codex in which a shell passes on a patch of two files; gives the rollout."""
    rollout = tiny_homes.codex(home)
    lines = [json.loads(line) for line in rollout.read_text().splitlines()]
    for line in lines:
        if line["payload"].get("type") == "function_call":
            line["payload"]["arguments"] = json.dumps({"command": ["apply_patch", _PATCH]})
    kept = [line for line in lines if line["type"] != "compacted" and "rolled_back" not in str(line)]
    rollout.write_text("".join(json.dumps(line) + "\n" for line in kept))
    return rollout


def qwen(home: Path) -> None:
    """A home of Qwen Code whose client kept what its edit changed."""
    log = tiny_homes.qwen(home)
    shown = {"filePath": "/w/a", "originalContent": "1\n", "newContent": "2\n3\n"}
    done = json.dumps({"status": "success", "resultDisplay": shown})
    log.write_text(log.read_text().replace('{"status": "success"}', done))


def together(home: Path) -> None:
    """A home of OpenCode in which two files are written in one step, so that one line has both results."""
    tiny_homes.opencode_files(home)
    for part in [one for one in home.rglob("*.json") if '"callID": "c1"' in one.read_text()]:
        second = (
            part.read_text()
            .replace('"c1"', '"c2"')
            .replace("/w/a", "/w/b")
            .replace(part.stem, part.stem + "b")
        )
        part.with_name(f"{part.stem}b.json").write_text(second)


def homes(place: Path) -> list[Path]:
    """A small home of each agent, and real ones where they are at hand."""
    found = []
    for make in (patched, tiny_homes.gemini_lines, qwen, tiny_homes.opencode_database, together):
        found.append(place / make.__name__)
        make(found[-1])
    real = (TRANSCRIPTS / "dialects" / "samples" / name for name in _SAMPLES + _OPENCODE)
    return found + [one for one in real if one.is_dir()]


def changes(files: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    """Path and lines of every change."""
    return sorted(
        (file["path"], one["added"], one["removed"])
        for file in files
        for one in file["versions"]
        if one["added"] is not None
    )


def test_the_page_and_exported_html_know_the_edits_that_files_lists(tmp_path: Path) -> None:
    """The list of recent edits, the turns, the calls in a conversation, and the calls in HTML. Copies in a fork are listed
    once, and turns are those of one branch.
    """
    for number, home in enumerate(homes(tmp_path)):
        case = Case(home, tmp_path / str(number))
        seen = 0
        with Browser(served(home, case.data)) as browser:
            listed = browser.get("/api/edits?count=200")
            assert listed["total"] == len(listed["edits"])
            for session in Home(home, data=case.data).sessions():
                expected = changes(case.document("files", session.id)["files"])
                own = [one for one in listed["edits"] if (one["session"], one["agent"]) == (session.id, None)]
                if b'"forkedFrom"' in session.path.read_bytes():
                    continue
                assert sorted((one["path"], one["added"], one["removed"]) for one in own) == expected, home
                seen += len(expected)
                tree = case.document("show", session.id, "--tree")
                if len(tree["leaves"]) != 1 or tree["compactions"]:
                    continue
                turns = browser.get(f"/api/sessions/{session.id}/costs")["turns"]
                told = [sum(one[name] for one in turns) for name in ("edits", "added", "removed")]
                assert told == [
                    len(expected),
                    sum(one[1] for one in expected),
                    sum(one[2] for one in expected),
                ]
                said = browser.get(f"/api/sessions/{session.id}/messages")["messages"]
                calls = [call for one in said for call in one["calls"].values() if call["added"] is not None]
                assert sum(call["added"] for call in calls) == told[1], home
                page = Page(case.said("export", session.id, "--format", "html").encode())
                shown = [call for one in page.messages for call in one["calls"].values()]
                assert told[1] == sum(call["added"] or 0 for call in shown), home
        assert seen, home
