"""Recent edits over all sessions: found in the index, as `recollect files` knows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.small_home import ONE, TWO, lines, link, prompt, put, reply
from tests.web.pages import Browser, served

AGENT = "a1b2c3d4e5f6a7b8c"


def _call(name: str, tool: str, path: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": tool, "input": {"file_path": path, **given}}


def _result(number: int, after: int, name: str, rich: object, **fields: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": name, "content": "ok", **fields}
    message = {"role": "user", "content": [block]}
    return link(number, after, type="user", message=message, toolUseResult=rich)


def _home(home: Path) -> None:
    made = {"type": "create", "filePath": "/srv/app/a.py", "content": "1\n2\n", "structuredPatch": []}
    patch = [{"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 2, "lines": ["-1", "+one", "+two"]}]
    edited = {
        "filePath": "/srv/app/a.py",
        "oldString": "1",
        "newString": "one\ntwo",
        "structuredPatch": patch,
    }
    put(
        home,
        ONE,
        [
            prompt(1, None, "Write it"),
            reply(2, 1, _call("w", "Write", "/srv/app/a.py", content="1\n2\n")),
            _result(3, 2, "w", made),
            reply(4, 3, _call("e", "Edit", "/srv/app/a.py", old_string="1", new_string="one\ntwo")),
            _result(5, 4, "e", edited),
            reply(6, 5, _call("f", "Edit", "/srv/app/b.py", old_string="1", new_string="2")),
            _result(7, 6, "f", "Error: not found", is_error=True),
            reply(8, 7, _call("r", "Read", "/srv/app/c.py")),
        ],
    )
    shop = {"type": "create", "filePath": "/srv/shop/Basket.ts", "content": "x\n", "structuredPatch": []}
    log = put(home, TWO, [prompt(11, None, "Send somebody")], cwd="/srv/shop")
    beside = log.with_suffix("") / "subagents"
    beside.mkdir(parents=True)
    steps = [
        prompt(12, None, "Write"),
        reply(13, 12, _call("s", "Write", "/srv/shop/Basket.ts", content="x\n"), answer="sub"),
        _result(14, 13, "s", shop),
    ]
    marks = {"isSidechain": True, "agentId": AGENT, "sessionId": TWO, "cwd": "/srv/shop"}
    (beside / f"agent-{AGENT}.jsonl").write_bytes(lines([one | marks for one in steps]))


def test_edits_of_all_sessions_come_newest_first(tmp_path: Path) -> None:
    """Failed ones and reads are left out; the lines are those of the tree of files; each names its version."""
    home = tmp_path / "claude"
    _home(home)
    with Browser(served(home, tmp_path / "data")) as browser:
        found = browser.get("/api/edits")
        told = [(one["path"], one["added"], one["removed"], one["session"]) for one in found["edits"]]
        assert told == [
            ("/srv/shop/Basket.ts", 1, 0, TWO),
            ("/srv/app/a.py", 2, 1, ONE),
            ("/srv/app/a.py", 2, 0, ONE),
        ]
        assert [one["agent"] for one in found["edits"]] == [AGENT, None, None]
        assert (found["total"], found["looked"], found["next"]) == (3, 3, None)

        files = {one["path"]: one for one in browser.get(f"/api/sessions/{ONE}/files")["files"]}
        file = files["/srv/app/a.py"]
        assert (file["is_edited"], file["added"], file["removed"]) == (True, 4, 1)
        changed = [one["entry_uuid"] for one in file["versions"] if one["added"] is not None]
        assert changed == [one["uuid"] for one in reversed(found["edits"][1:])]
        (turn,) = browser.get(f"/api/sessions/{ONE}/costs")["turns"]
        assert (turn["added"], turn["removed"]) == (file["added"], file["removed"])


def test_edits_are_filtered_and_paged(tmp_path: Path) -> None:
    """By project, by a part of the path in any case, and from where the last page ended."""
    home = tmp_path / "claude"
    _home(home)
    with Browser(served(home, tmp_path / "data")) as browser:
        assert [one["path"] for one in browser.get("/api/edits?text=basket")["edits"]] == [
            "/srv/shop/Basket.ts"
        ]
        assert {one["session"] for one in browser.get("/api/edits?project=/srv/app")["edits"]} == {ONE}
        first = browser.get("/api/edits?count=2")
        assert (len(first["edits"]), first["next"]) == (2, 2)
        rest = browser.get("/api/edits?count=2&from=2")
        assert ([one["added"] for one in rest["edits"]], rest["next"]) == ([2], None)


def test_a_log_that_is_gone_or_changed_gives_no_edit(tmp_path: Path) -> None:
    """What the index still knows and the disk no longer has is left out, not an error."""
    home = tmp_path / "claude"
    _home(home)
    page = served(home, tmp_path / "data")
    page.page.backend.index.refresh = lambda: None  # type: ignore[method-assign]
    for log in home.rglob(f"{ONE}.jsonl"):
        log.unlink()
    with Browser(page) as browser:
        assert [one["session"] for one in browser.get("/api/edits")["edits"]] == [TWO]
