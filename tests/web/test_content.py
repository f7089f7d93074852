"""Hostile and large content: pictures by reference, overlong text cut, nothing that a browser would run."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.small_home import ONE, link, prompt, put, reply, said, uuid_of
from tests.web.pages import Browser, served

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"


def _source(data: bytes, kind: str) -> dict[str, Any]:
    return {"type": "base64", "media_type": kind, "data": base64.b64encode(data).decode()}


def _with_pictures() -> list[dict[str, Any]]:
    shown = {"type": "image", "source": _source(PNG, "image/png")}
    lying = {"type": "image", "source": _source(SVG, "image/png"), "future": 1}
    inner = [{"type": "text", "text": "see"}, {"type": "image", "source": _source(PNG, "image/png")}]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": inner}
    call = {"type": "tool_use", "id": "t1", "name": "Read", "input": {}}
    return [
        {**prompt(1, None, ""), "message": {"role": "user", "content": [shown, lying]}},
        reply(2, 1, call),
        link(3, 2, type="user", message={"role": "user", "content": [lying, result]}),
        reply(4, 3, said("ok")),
    ]


@pytest.fixture
def pictures(home: Path, data: Path) -> Any:
    put(home, ONE, _with_pictures())
    with Browser(served(home, data)) as one:
        yield one


def test_pictures_come_by_reference(pictures: Browser) -> None:
    """No base64 in a window; the reference gives the very bytes, and fields nobody knows stay."""
    first, answer, *_ = pictures.get(f"/api/sessions/{ONE}/messages")["messages"]
    assert first["blocks"] == [
        {
            "type": "image",
            "source": {
                "type": "blob",
                "media_type": "image/png",
                "bytes": 264,
                "url": f"/api/sessions/{ONE}/blobs/{uuid_of(1)}/0",
            },
        },
        {
            "type": "image",
            "source": {
                "type": "blob",
                "media_type": "image/png",
                "bytes": 60,
                "url": f"/api/sessions/{ONE}/blobs/{uuid_of(1)}/1",
            },
            "future": 1,
        },
    ]
    url = answer["calls"]["t1"]["blocks"][1]["source"]["url"]
    assert url == f"/api/sessions/{ONE}/blobs/{uuid_of(3)}/1"
    assert pictures.ask("GET", url).content == PNG


def test_a_picture_is_what_its_bytes_are(pictures: Browser) -> None:
    """PNG is shown as PNG; markup that calls itself PNG is bytes to be saved; both in a sandbox, as attachments."""
    expected = {0: ("image/png", PNG), 1: ("application/octet-stream", SVG)}
    for number, (kind, data) in expected.items():
        answer = pictures.ask("GET", f"/api/sessions/{ONE}/blobs/{uuid_of(1)}/{number}")
        assert (answer.headers["content-type"], answer.content) == (kind, data)
        assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert answer.headers["content-disposition"].startswith("attachment")
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert pictures.ask("GET", f"/api/sessions/{ONE}/blobs/{uuid_of(1)}/2").status_code == 404


def test_an_overlong_text_is_cut_and_says_so(home: Path, data: Path) -> None:
    """100,000 characters of it come in a window, with its true length; all of it when that message is asked for."""
    long = "ä" * 250_000
    put(home, ONE, [prompt(1, None, "Q"), reply(2, 1, said(long), said("short"))])
    with Browser(served(home, data)) as browser:
        message = browser.get(f"/api/sessions/{ONE}/messages?from=1")["messages"][0]
        assert message["cut"] is True
        assert message["blocks"][0] == {"type": "text", "text": long[:100_000], "cut_characters": 250_000}
        assert message["blocks"][1] == {"type": "text", "text": "short"}
        whole = browser.get(f"/api/sessions/{ONE}/messages/1")
        assert (whole["blocks"][0]["text"], whole["cut"]) == (long, False)


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "</title><img src=x onerror=alert(1)>",
        "\u202e\x00\x1b]0;x\x07",
        "\ud800",
        "event: grown\ndata: {}\n\n",
        "__proto__",
    ],
)
def test_hostile_text_stays_text(home: Path, data: Path, text: str) -> None:
    """It comes back as it was written, as a JSON string of a JSON document, from every route that quotes it."""
    put(home, ONE, [prompt(1, None, text), reply(2, 1, said(text))])
    log = next(home.rglob(f"{ONE}.jsonl"))
    with log.open("ab") as out:
        out.write(
            json.dumps({"type": "custom-title", "customTitle": text, "sessionId": ONE}).encode() + b"\n"
        )
    with Browser(served(home, data)) as browser:
        for path in ("", "/messages", "/map", "/branches", "/findings", "/resume"):
            answer = browser.ask("GET", f"/api/sessions/{ONE}{path}")
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "application/json"
        (first, second) = browser.get(f"/api/sessions/{ONE}/messages")["messages"]
        # Half a surrogate pair is read as the sign for what cannot be read, as `show` does.
        expected = "\ufffd" if text == "\ud800" else text
        assert [expected, expected] == [first["blocks"][0]["text"], second["blocks"][0]["text"]]


def test_odd_logs_are_answered_too(home: Path, data: Path) -> None:
    """Empty, garbage, a log without conversation: heads say what is the matter, windows are 404, nothing breaks."""
    folder = home / "projects" / "-srv-odd"
    folder.mkdir(parents=True)
    names = [f"00000000-0000-4000-8000-0000000000a{number}" for number in range(4)]
    contents = [
        b"",
        b"\x00\x01 not json\n",
        b'{"type":"summary","summary":"s","leafUuid":"x"}\n',
        b'{"type":"user"',
    ]
    for name, content in zip(names, contents, strict=True):
        (folder / f"{name}.jsonl").write_bytes(content)
    with Browser(served(home, data)) as browser:
        assert browser.get("/api/sessions")["total"] == 6
        for name in names:
            head = browser.get(f"/api/sessions/{name}")
            assert (head["messages"], bool(head["problem"])) == (0, True)
            assert browser.ask("GET", f"/api/sessions/{name}/messages").status_code == 404
            assert browser.ask("GET", f"/api/sessions/{name}/findings").status_code == 200


def test_the_built_page_is_served_from_memory(home: Path, data: Path, tmp_path: Path) -> None:
    """Files by their kind, hashed ones for ever, links into the page as the page, nothing else."""
    static = tmp_path / "static"
    (static / "assets").mkdir(parents=True)
    (static / "index.html").write_text("<!doctype html>built")
    (static / "assets" / "app-1a2b.js").write_text("export {}")
    (static / "notes.md").write_text("not for browsers")
    with Browser(served(home, data, static=static)) as browser:
        script = browser.ask("GET", "/assets/app-1a2b.js")
        assert script.headers["content-type"] == "text/javascript; charset=utf-8"
        assert "immutable" in script.headers["cache-control"]
        for path in ("/", "/index.html", f"/s/{ONE}/m/{uuid_of(1)}"):
            assert browser.ask("GET", path).text == "<!doctype html>built"
        assert {404} == {
            browser.ask("GET", path).status_code for path in ("/notes.md", "/assets/", "/app.py")
        }


def test_without_a_build_the_page_says_so(browser: Browser) -> None:
    """A plain page without script."""
    answer = browser.ask("GET", "/")
    assert "The page is not built" in answer.text
    assert "<script" not in answer.text


def test_a_window_of_huge_messages_ends_sooner(home: Path, data: Path) -> None:
    """Twenty messages of a million bytes: eight megabytes of them come, and the next window goes on from there."""
    talk: list[dict[str, Any]] = [prompt(1, None, "Q")]
    talk += [reply(number, number - 1, said("x" * 1_100_000)) for number in range(2, 22)]
    put(home, ONE, talk)
    with Browser(served(home, data)) as browser:
        first = browser.get(f"/api/sessions/{ONE}/messages?count=200")
        assert (first["total"], len(first["messages"])) == (21, 9)
        rest = browser.get(f"/api/sessions/{ONE}/messages?from=9&count=200")
        assert rest["messages"][0]["index"] == 9
