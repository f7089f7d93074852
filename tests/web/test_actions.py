"""What the page may change: through the same plans and undos as the commands, and only when told to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from recollect.web.app import ROUTES, document_of
from tests.documents import require_fit
from tests.small_home import (
    ONE,
    TWO,
    link,
    open_in_this_process,
    prompt,
    put,
    reply,
    said,
    state,
    uuid_of,
    written,
)
from tests.web.pages import Browser, served

ANSWERS = {one.path: document_of(one) for one in ROUTES if one.method == "POST"}


def _posted(browser: Browser, path: str, /, **body: object) -> Any:
    """A change; its document must fit the description."""
    document = browser.post(path, **body)
    pattern = path.replace(ONE, "{session}").replace(TWO, "{session}")
    require_fit(ANSWERS[pattern], document)
    return document


def _undone(browser: Browser, document: dict[str, Any]) -> Any:
    request = document["undo_request"]
    return browser.post(request["path"], **request["body"])


PLANS: list[tuple[str, dict[str, object]]] = [
    (f"/api/sessions/{ONE}/rename", {"title": "New"}),
    (f"/api/sessions/{ONE}/tag", {"tag": "keep"}),
    (f"/api/sessions/{ONE}/fork", {}),
    (f"/api/sessions/{ONE}/repair", {}),
    (f"/api/sessions/{ONE}/remove", {}),
    (f"/api/sessions/{ONE}/archive", {}),
    ("/api/archive", {"which": "all"}),
    ("/api/archive", {"which": "expiring"}),
    ("/api/cleanup", {"days": 1}),
]


@pytest.mark.parametrize(("path", "body"), PLANS)
def test_without_apply_nothing_is_written(
    browser: Browser, home: Path, data: Path, path: str, body: dict[str, object]
) -> None:
    """The plan is answered, and neither the home nor our own directory changes."""
    before = state(home), {one for one in state(data) if not one.startswith("cache")}
    document = _posted(browser, path, **body)
    assert document["applied"] is False
    assert document["undo_request"] is None
    assert before == (state(home), {one for one in state(data) if not one.startswith("cache")})


def test_rename_and_back(browser: Browser) -> None:
    """The title is there at once in head and list; the undo takes it away again."""
    done = _posted(browser, f"/api/sessions/{ONE}/rename", title="Basket", apply=True)
    assert (done["before"], done["after"], done["applied"]) == ("", "Basket", True)
    assert browser.get(f"/api/sessions/{ONE}")["custom_title"] == "Basket"
    assert browser.get("/api/sessions?text=basket")["total"] == 1
    _undone(browser, done)
    assert browser.get(f"/api/sessions/{ONE}")["custom_title"] is None


def test_tag_and_filter(browser: Browser) -> None:
    """A tagged session is found by its tag."""
    _posted(browser, f"/api/sessions/{TWO}/tag", tag="hold", apply=True)
    assert [TWO] == [row["id"] for row in browser.get("/api/sessions?tag=hold")["sessions"]]
    assert browser.get("/api/sessions?tag=*")["facets"]["tags"] == [["hold", 1]]


def test_fork_from_here_and_back(browser: Browser, home: Path) -> None:
    """A copy up to the entry named appears as a session of its own; the undo moves it to the trash."""
    before = state(home)
    done = _posted(browser, f"/api/sessions/{ONE}/fork", at=uuid_of(2), title="Second", apply=True)
    assert done["entries"] == 2
    head = browser.get(f"/api/sessions/{done['new']}")
    assert (head["title"], head["messages"]) == ("Second", 2)
    copied = browser.get(f"/api/sessions/{done['new']}/messages")["messages"]
    assert [True, True] == [one["is_copied"] for one in copied]
    _undone(browser, done)
    assert before == state(home)


def test_remove_and_back(browser: Browser, home: Path) -> None:
    """To the trash and back, byte for byte."""
    before = state(home)
    done = _posted(browser, f"/api/sessions/{ONE}/remove", apply=True)
    assert browser.ask("GET", f"/api/sessions/{ONE}").status_code == 404
    _undone(browser, done)
    assert before == state(home)


def test_a_session_that_a_client_has_open_is_not_removed(browser: Browser, home: Path) -> None:
    """409 with who has it open; it stays."""
    open_in_this_process(home, ONE)
    answer = browser.ask("POST", f"/api/sessions/{ONE}/remove", body={"apply": True})
    assert answer.status_code == 409
    assert "a client has it open" in answer.json()["error"]
    assert browser.get("/api/sessions?live=true")["total"] == 1


def test_repair_shows_its_plan_and_takes_it_back(home: Path, data: Path) -> None:
    """A cut line is a finding with a plan; applied, a copy appears without it; the undo removes the copy."""
    log = put(home, ONE, [prompt(1, None, "Q1"), reply(2, 1, said("A1"))])
    log.write_bytes(log.read_bytes() + b'{"type":"user","uuid":"torn\n' + _line(prompt(3, 2, "Q2")))
    before = state(home)
    with Browser(served(home, data)) as browser:
        found = browser.get(f"/api/sessions/{ONE}/findings")
        assert found["repair"]["is_needed"] is True
        assert found["findings"][0]["severity"] == "error"
        assert browser.get("/api/sessions?damaged=true")["total"] == 1
        done = _posted(browser, f"/api/sessions/{ONE}/repair", apply=True)
        assert Path(done["quarantine"]).read_bytes() == b'{"type":"user","uuid":"torn\n'
        assert browser.get(f"/api/sessions/{done['new']}/findings")["findings"] == []
        assert browser.get("/api/health")["changes"][0]["what"] == "repair"
        _posted(browser, done["undo_request"]["path"], **done["undo_request"]["body"])
        assert before == state(home)


def _line(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry).encode() + b"\n"


def test_archive_is_seen_in_list_and_health(browser: Browser) -> None:
    """What was archived says so; what was not is counted."""
    assert browser.get("/api/health")["not_archived"]["total"] == 2
    done = _posted(browser, f"/api/sessions/{ONE}/archive", apply=True)
    assert (done["sessions"], done["failed"]) == ([ONE], [])
    assert browser.get("/api/health")["not_archived"]["total"] == 1
    assert [ONE] == [row["id"] for row in browser.get("/api/sessions?archived=true")["sessions"]]


def test_clean_up_archives_before_it_takes(browser: Browser, home: Path) -> None:
    """Old sessions go to the trash by way of the archive, and can still be read from there."""
    put(home, ONE, [prompt(1, None, "Q1") | {"timestamp": "2020-01-01T00:00:00.000Z"}])
    done = _posted(browser, "/api/cleanup", days=2000, apply=True)
    assert ([ONE], 1) == ([one["session"] for one in done["sessions"]], done["total"])
    archived = [one["id"] for one in browser.get("/api/sessions")["sessions"] if one["is_archive_only"]]
    assert archived == [ONE]
    head = browser.get(f"/api/sessions/{ONE}")
    assert (head["is_archive_only"], head["messages"]) == (True, 1)
    line = browser.get(f"/api/sessions/{ONE}/resume")["line"]
    assert line.startswith(f"recollect --home {home} protect restore {ONE} --apply && ")
    assert line.endswith(f"claude --resume {ONE}")
    browser.post("/api/undo", id=done["batches"][0], apply=True)
    assert not any(one["is_archive_only"] for one in browser.get("/api/sessions")["sessions"])
    assert "archive" not in browser.get(f"/api/sessions/{ONE}/resume")["line"]


def test_what_only_the_archive_has_under_a_name_that_no_client_gives_is_not_offered_by_it(
    browser: Browser, home: Path
) -> None:
    put(home, "notes", [prompt(1, None, "Q1") | {"timestamp": "2020-01-01T00:00:00.000Z"}])
    _posted(browser, "/api/cleanup", days=2000, apply=True)
    answer = browser.ask("GET", "/api/sessions/notes/resume")
    assert answer.status_code == 400
    assert answer.json()["hint"].endswith(f"recollect --home {home} resume notes --yes")


def test_a_version_of_a_file_is_restored_to_a_chosen_place(home: Path, data: Path, tmp_path: Path) -> None:
    """A written file comes back byte for byte; a file in the way is not replaced; no relative place is taken."""
    call = {
        "type": "tool_use",
        "id": "w",
        "name": "Write",
        "input": {"file_path": "/srv/app/a.txt", "content": "one\n"},
    }
    result = link(
        3,
        2,
        type="user",
        message={"role": "user", "content": [{"type": "tool_result", "tool_use_id": "w", "content": "ok"}]},
        toolUseResult={
            "type": "create",
            "filePath": "/srv/app/a.txt",
            "content": "one\n",
            "structuredPatch": [],
        },
    )
    put(home, ONE, [prompt(1, None, "Q"), reply(2, 1, call), result])
    out = tmp_path / "out"
    out.mkdir()
    path = f"/api/sessions/{ONE}/files/restore"
    with Browser(served(home, data)) as browser:
        (file,) = browser.get(f"/api/sessions/{ONE}/files")["files"]
        written_as = next(one for one in file["versions"] if one["bytes"] == 4)
        body = {"path": "/srv/app/a.txt", "number": written_as["number"], "to": str(out)}
        assert _posted(browser, path, **body)["in_the_way"] is False
        assert [] == list(out.iterdir())
        done = _posted(browser, path, **body, apply=True)
        assert (out / "a.txt").read_bytes() == b"one\n"
        assert done["to"] == str(out / "a.txt")
        assert _posted(browser, path, **body)["is_there"] is True
        assert browser.ask("POST", path, body={**body, "to": "out", "apply": True}).status_code == 400

        _undone(browser, done)
        assert [] == list(out.iterdir())
        (out / "a.txt").write_text("mine")
        assert _posted(browser, path, **body)["in_the_way"] is True
        assert browser.ask("POST", path, body={**body, "apply": True}).status_code == 400
        done = _posted(browser, path, **body, overwrite=True, apply=True)
        assert (out / "a.txt").read_bytes() == b"one\n"
        _undone(browser, done)
        assert (out / "a.txt").read_text() == "mine"

        (out / "a.txt").unlink()
        (out / "a.txt").symlink_to(tmp_path / "outside.txt")
        for more in ({}, {"overwrite": True}, {"overwrite": True, "apply": True}):
            assert browser.ask("POST", path, body={**body, **more}).status_code == 400
        assert not (tmp_path / "outside.txt").exists()
        assert browser.ask("POST", path, body={**body, "to": str(out / "no")}).status_code == 404


def test_a_version_is_saved_as_its_exact_bytes(home: Path, data: Path) -> None:
    """As an attachment under the file's own name, whatever the name is; what was not kept is refused."""
    name = 'b"\r\nX: y.txt'
    call = {"type": "tool_use", "id": "w", "name": "Write", "input": {"file_path": f"/srv/app/{name}"}}
    made = {"type": "create", "filePath": f"/srv/app/{name}", "content": "<b>é</b>\n", "structuredPatch": []}
    block = {"type": "tool_result", "tool_use_id": "w", "content": "ok"}
    result = link(3, 2, type="user", message={"role": "user", "content": [block]}, toolUseResult=made)
    put(home, ONE, [prompt(1, None, "Q"), reply(2, 1, call), result])
    with Browser(served(home, data)) as browser:
        query = urlencode({"path": f"/srv/app/{name}", "number": 2})
        answer = browser.ask("GET", f"/api/sessions/{ONE}/files/bytes?{query}")
        assert answer.content == "<b>é</b>\n".encode()
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith('attachment; filename="b___X__y.txt"')
        assert "sandbox" in answer.headers["content-security-policy"]
        assert browser.ask("GET", f"/api/sessions/{ONE}/files/bytes?{query[:-1]}1").status_code == 400


def test_directories_are_listed_to_choose_one(home: Path, data: Path, tmp_path: Path) -> None:
    """Those in a directory, sorted, without hidden ones and files; what is none says so."""
    place = tmp_path / "place"
    for one in ("b", "a", ".hidden"):
        (place / one).mkdir(parents=True)
    (place / "file").write_text("")
    with Browser(served(home, data)) as browser:
        found = browser.get(f"/api/directories?path={place}/a/..")
        assert found == {
            "path": str(place),
            "parent": str(tmp_path),
            "directories": ["a", "b"],
            "total": 2,
            "is_writable": True,
        }
        statuses = [
            browser.ask("GET", f"/api/directories?path={path}").status_code
            for path in (f"{place}/file", f"{place}/none", "place")
        ]
        assert statuses == [400, 404, 400]


def test_the_sample_is_never_changed(home: Path, data: Path) -> None:
    """Every change of the built-in sample is refused, with or without apply."""
    page = served(home, data)
    page.page.backend.is_sample = True
    with Browser(page) as browser:
        for path, body in PLANS:
            assert browser.ask("POST", path, body={**body, "apply": True}).status_code == 409


@pytest.mark.parametrize("format_", ["md", "json", "jsonl", "flat"])
def test_an_export_is_a_file_to_be_saved(browser: Browser, home: Path, format_: str) -> None:
    """It comes as an attachment that no browser shows."""
    answer = browser.ask("POST", f"/api/sessions/{ONE}/export", body={"format": format_, "redact": False})
    assert answer.headers["content-disposition"].startswith("attachment; filename=")
    assert "sandbox" in answer.headers["content-security-policy"]
    assert b"A2" in answer.content
    if format_ == "jsonl":
        assert answer.content == next(home.rglob(f"{ONE}.jsonl")).read_bytes()


def test_an_export_leaves_secrets_out(browser: Browser, home: Path) -> None:
    """Unless told otherwise, no credential leaves the machine's logs; the search for them tells kinds, not values."""
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    put(home, ONE, [prompt(1, None, f"use {secret} please")])
    answer = browser.ask("POST", f"/api/sessions/{ONE}/export", body={"format": "jsonl"})
    assert secret not in answer.text
    kept = browser.ask("POST", f"/api/sessions/{ONE}/export", body={"format": "jsonl", "redact": False})
    assert secret in kept.text
    browser.post("/api/health/secrets")
    browser.page.page.secrets.wait(60)
    health = browser.ask("GET", "/api/health")
    assert health.json()["secrets"]["state"] == "done"
    assert health.json()["secrets"]["total_secrets"] == 1
    assert secret not in health.text


def test_a_label_that_cannot_be_seen_is_refused(browser: Browser, home: Path) -> None:
    """A control character in a title is a refusal, and nothing is written."""
    before = state(home)
    answer = browser.ask("POST", f"/api/sessions/{ONE}/rename", body={"title": "a\u202eb", "apply": True})
    assert answer.status_code == 400
    assert before == state(home)


def test_the_log_of_a_renamed_session_has_one_line_more(browser: Browser, home: Path) -> None:
    """What the page writes is what the command writes."""
    log = next(home.rglob(f"{ONE}.jsonl"))
    browser.post(f"/api/sessions/{ONE}/rename", title="T", apply=True)
    assert written(log)[-1] == {"type": "custom-title", "customTitle": "T", "sessionId": ONE}
