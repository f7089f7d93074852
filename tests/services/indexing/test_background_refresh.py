"""A refresh behind the scenes has nothing of ours: no terminal, no files, no place, no claim on the processor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recollect.services.indexing import background_refresh
from recollect.services.indexing.background_refresh import start_refresh

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
    program = background_refresh._PROGRAM.replace("{module!r}", "'witness'")
    monkeypatch.setattr(background_refresh, "_PROGRAM", program)

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
        "nice": 19,
        "directory": "/",
        "streams": ["/dev/null"] * 3,
    } == told


def test_one_is_started_and_then_none_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second to ask hears that there is nothing to do."""
    commands: list[list[str]] = []
    monkeypatch.setattr(background_refresh, "_start", lambda command, niceness: commands.append(command))
    index = str(tmp_path / "index.sqlite")

    assert [True, False] == [start_refresh(index, ["/home"]), start_refresh(index, ["/home"])]
    assert [["--cache", str(tmp_path), "/home"]] == commands


@pytest.mark.parametrize("executable", ["", None])
def test_without_an_interpreter_or_a_home_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executable: str | None
) -> None:
    """Nor is the turn taken from somebody who could."""
    index = str(tmp_path / "index.sqlite")

    without_home = start_refresh(index, [])
    monkeypatch.setattr(sys, "executable", executable)

    assert [False, False] == [without_home, start_refresh(index, ["/home"])]
    assert [] == list(tmp_path.iterdir())


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
                "recollect.services.indexing.refresh_once",
                "--cache",
                str(tmp_path),
                "/home",
            ],
            subprocess.DEVNULL,
        )
    ] == started


@pytest.mark.parametrize(
    "problem", [BlockingIOError(11, "no more processes"), ValueError("embedded null byte")]
)
def test_a_process_that_cannot_be_started_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    """The turn is used up: the next attempt comes after the pause, not with the next line."""

    def fail(arguments: list[str], niceness: int) -> None:
        raise problem

    monkeypatch.setattr(background_refresh, "_start", fail)
    index = str(tmp_path / "index.sqlite")

    assert not start_refresh(index, ["/home"])
    assert (tmp_path / "index.asked").exists()
