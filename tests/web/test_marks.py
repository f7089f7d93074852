"""Stars, pins and a kept address are ours: in our own directory, for our own user, and nothing of a home changes."""

from __future__ import annotations

import socket
import stat
from argparse import Namespace
from pathlib import Path

import pytest

from recollect.cli.main import main
from recollect.cli.web import _listening
from recollect.store.page_files import PageAddressFile
from tests.small_home import ONE, TWO, state, uuid_of
from tests.web.pages import Browser, served, two_sessions


@pytest.fixture
def home(tmp_path: Path) -> Path:
    two_sessions(tmp_path / "claude")
    return tmp_path / "claude"


def test_stars_and_pins_outlive_the_server_and_leave_the_home_alone(home: Path, tmp_path: Path) -> None:
    before = state(home)
    with Browser(served(home, tmp_path / "data")) as browser:
        browser.post(f"/api/sessions/{ONE}/star", on=True)
        browser.post(f"/api/sessions/{TWO}/star", on=True)
        browser.post(f"/api/sessions/{TWO}/star", on=False)
        browser.post(f"/api/sessions/{TWO}/pin", uuid=uuid_of(2), text="Reading")
        assert browser.ask("POST", "/api/sessions/none/star", body={"on": True}).status_code == 404
    with Browser(served(home, tmp_path / "data")) as browser:
        marks = browser.get("/api/marks")
        listed = browser.get("/api/sessions?starred=true")
        others = browser.get("/api/sessions?starred=false")

    assert marks["stars"] == [ONE]
    assert [(one["session"], one["uuid"], one["text"]) for one in marks["pins"]] == [
        (TWO, uuid_of(2), "Reading")
    ]
    assert [row["id"] for row in listed["sessions"]] == [ONE]
    assert [row["id"] for row in others["sessions"]] == [TWO]
    assert before == state(home)
    assert stat.S_IMODE((tmp_path / "data" / "marks.json").stat().st_mode) == 0o600


def test_a_damaged_file_of_marks_is_no_marks(home: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "marks.json").write_bytes(b"\xff{")
    with Browser(served(home, tmp_path / "data")) as browser:
        assert browser.get("/api/marks") == {"stars": [], "pins": []}


def test_a_browser_stays_signed_in_only_where_the_address_is_kept(home: Path, tmp_path: Path) -> None:
    kept = PageAddressFile(tmp_path / "data").keep(8123)
    with Browser(served(home, tmp_path / "data", cookie=kept.cookie)) as first:
        assert first.get("/api/me")["is_remembered"] is True
        headers = {"cookie": first.headers["cookie"]}
    later = Browser(served(home, tmp_path / "data", cookie=kept.cookie))
    other = Browser(served(home, tmp_path / "data"))

    assert later.ask("GET", "/api/me", headers=headers).status_code == 200
    assert other.ask("GET", "/api/me", headers=headers).status_code == 401
    assert stat.S_IMODE((tmp_path / "data" / "page.json").stat().st_mode) == 0o600
    answer = later.ask("POST", "/api/login", body={"key": later.page.keys.key})
    assert "Max-Age=15552000" in answer.headers["set-cookie"]
    assert (
        "Max-Age"
        not in other.ask("POST", "/api/login", body={"key": other.page.keys.key}).headers["set-cookie"]
    )


def test_the_address_is_kept_until_it_is_forgotten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = PageAddressFile(tmp_path)
    assert file.read() is None
    first = file.keep(8500)
    assert file.keep(8600).cookie == first.cookie
    assert main(["--data", str(tmp_path), "web", "--forget"]) == 0
    assert file.read() is None
    assert file.keep(8500).cookie != first.cookie
    assert "forgotten" in capsys.readouterr().out


def test_a_kept_port_that_is_taken_gives_another_address_this_time(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        file = PageAddressFile(tmp_path)
        file.keep(port)
        listening, cookie = _listening(Namespace(port=0, remember=False), file)
    with listening:
        assert (listening.getsockname()[1] != port, cookie) == (True, None)
