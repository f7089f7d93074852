"""A refresh behind the scenes has nothing of ours: no terminal, no files, no place, no claim on the processor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recollect.index import background
from recollect.index.access import index_path, open_index
from recollect.index.background import main, start_refresh
from recollect.system.lock import FileLock
from tests.talk import assistant, log_at

WITNESS = """
import json, os, sys
told = {
    "arguments": sys.argv[1:],
    "leads its session": os.getsid(0) == os.getpid(),
    "nice": os.nice(0),
    "directory": os.getcwd(),
    "streams": [os.readlink(f"/proc/self/fd/{fd}") for fd in (0, 1, 2)],
    "path": sys.path,
}
with open(os.environ["WITNESS"] + ".new", "w") as file:
    json.dump(told, file)
os.rename(os.environ["WITNESS"] + ".new", os.environ["WITNESS"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_it_runs_detached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A witness runs in the place of the refresher and tells what it sees."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "witness.py").write_text(WITNESS)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    monkeypatch.setenv("WITNESS", str(tmp_path / "told"))
    program = background._PROGRAM.replace("{module!r}", "'witness'")
    monkeypatch.setattr(background, "_PROGRAM", program)

    assert start_refresh(str(tmp_path / "cache" / "index.sqlite"), ["/a home", "/b"])

    deadline = time.monotonic() + 60
    while not (tmp_path / "told").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    told = json.loads((tmp_path / "told").read_text())
    assert str(tmp_path / "work") not in told["path"]
    assert "" not in told.pop("path")
    assert {
        "arguments": ["--cache", str(tmp_path / "cache"), "/a home", "/b"],
        "leads its session": True,
        "nice": min(19, os.nice(0) + 19),
        "directory": "/",
        "streams": ["/dev/null"] * 3,
    } == told


def test_one_is_started_and_then_none_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second to ask hears that there is nothing to do."""
    commands: list[list[str]] = []
    monkeypatch.setattr(background, "_start", lambda command, niceness: commands.append(command))
    index = str(tmp_path / "index.sqlite")

    assert [True, False] == [start_refresh(index, ["/home"]), start_refresh(index, ["/home"])]
    assert [["--cache", str(tmp_path), "/home"]] == commands


def test_a_system_without_posix_spawn_starts_it_another_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows: as a module, with nothing on its streams."""
    started: list[tuple[list[str], object]] = []
    monkeypatch.delattr(os, "posix_spawn")
    monkeypatch.setattr(
        subprocess, "Popen", lambda command, **more: started.append((command, more["stdout"]))
    )

    assert start_refresh(str(tmp_path / "index.sqlite"), ["/home"])
    assert [
        (
            [
                sys.executable,
                "-P",
                "-m",
                "recollect.index.background",
                "--cache",
                str(tmp_path),
                "/home",
            ],
            subprocess.DEVNULL,
        )
    ] == started


@pytest.fixture
def home(tmp_path: Path) -> Path:
    log_at(tmp_path / "home" / "projects" / "-srv" / "s.jsonl", [assistant("a", None, 1, "x")])
    return tmp_path / "home"


def answers(home: Path, cache: Path) -> object:
    with open_index([home], cache=cache, is_refreshed=False, patience=0) as opened:
        return None if opened.is_temporary else opened.database.value("SELECT sum(messages) FROM rollup")


def test_it_refreshes_and_says_nothing(home: Path, tmp_path: Path) -> None:
    """As a program of its own, the way the status line starts it."""
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "recollect.index.background",
            "--cache",
            str(tmp_path / "cache"),
            str(home),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (0, "", "", 1) == (ran.returncode, ran.stdout, ran.stderr, answers(home, tmp_path / "cache"))


def test_where_somebody_else_is_at_it_it_has_nothing_to_do(home: Path, tmp_path: Path) -> None:
    """It does not even wait for the first index."""
    path = index_path([home], tmp_path)
    with FileLock(path.with_suffix(".lock")):
        assert 0 == main(["--cache", str(tmp_path), str(home)])

        assert answers(home, tmp_path) is None


def test_without_a_place_for_it_it_ends_quietly(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file where the directory should be."""
    (tmp_path / "file").write_text("")

    assert (0, ("", "")) == (
        main(["--cache", str(tmp_path / "file" / "cache"), str(home)]),
        capsys.readouterr(),
    )
