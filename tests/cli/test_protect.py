"""`recollect protect`: an hourly run that works in an empty environment, is seen where it fails, and can be removed.

Debian's crontab program is used, on the table of the user ``nobody``, where it is installed and the tests run as root.
Elsewhere a program of the same name keeps a table in a file: the tests must not touch the table of whoever runs them.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.ask.protection import ProtectRun, record
from recollect.cli.main import main
from recollect.errors import UsageError
from recollect.system import scheduler
from tests.agents import tiny_homes
from tests.cli.test_cleanup import answer
from tests.small_home import ONE, TALK, TWO, put, state

STAND_IN = """#!/bin/sh
table="$(dirname "$0")/table"
case "$1" in
  -l) [ -f "$table" ] && cat "$table" || { echo "no crontab for you" >&2; exit 1; } ;;
  -r) rm "$table" ;;
  -) cat >"$table" ;;
esac
"""
REAL = shutil.which("crontab") if os.name == "posix" and os.geteuid() == 0 else None


@pytest.fixture
def alone() -> Iterator[None]:
    """One test at a time on this machine: all of them use the table of one user."""
    with (Path(tempfile.gettempdir()) / f"recollect-test-crontab-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def table(alone: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A crontab of its own, and the words that print it; no timer of systemd."""
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "crontab"
    program.write_text(f'#!/bin/sh\nexec {REAL} -u nobody "$@"\n' if REAL else STAND_IN)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(scheduler, "_has_systemd", lambda: False)
    subprocess.run([str(program), "-r"], capture_output=True, check=False)
    yield [str(program), "-l"]
    subprocess.run([str(program), "-r"], capture_output=True, check=False)


@pytest.fixture
def home(own_home: Path) -> Path:
    """A home with two sessions, below a directory whose name a shell and cron would misread."""
    root = own_home / "it's 100% mine" / ".claude"
    put(root, ONE, TALK)
    put(root, TWO, TALK)
    return root


def lines_of(table: list[str]) -> list[str]:
    """Entries of a table, without the comments that some systems put above them."""
    text = subprocess.run(table, capture_output=True, text=True, check=False).stdout
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def overview(capsys: pytest.CaptureFixture[str], home: Path) -> str:
    capsys.readouterr()
    assert 0 == main(["--home", str(home)])
    return next(line for line in capsys.readouterr().out.splitlines() if line.startswith("Protected"))


def test_the_plan_changes_nothing(
    home: Path, own_home: Path, table: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The entry, the command and the state are shown."""
    before = state(own_home)
    planned = answer(capsys, "--home", str(home), "protect", "--keep-days", "365")
    assert 0 == main(["--home", str(home), "protect"])
    told = capsys.readouterr().out

    assert (False, "cron", "off") == (
        planned["applied"],
        planned["scheduler"],
        planned["protection"]["state"],
    )
    assert [str(home / "settings.json")] == planned["settings"]
    assert ("protect --run", True) == (planned["command"][-13:], "Nothing was changed" in told)
    assert ([], before) == (lines_of(table), state(own_home))
    again = f"recollect --home {shlex.quote(str(home))} protect"
    assert f"Protected no: no scheduled archive ({again})" in overview(capsys, home)


def test_it_is_set_up_runs_in_an_empty_environment_and_goes_away(
    home: Path, own_home: Path, table: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The line of the table, run as cron runs it, archives a new session; other entries stay as they were."""
    subprocess.run([table[0], "-"], input="5 4 * * * true\n", text=True, check=True)
    settings = home / "settings.json"
    settings.write_text('{"cleanupPeriodDays": 30}')
    done = answer(capsys, "--home", str(home), "protect", "--keep-days", "365", "--apply")
    first = overview(capsys, home)
    other, own = lines_of(table)
    third = put(home, "7c1d9c1e-0000-4000-8000-000000000003", TALK)
    command = own.split(maxsplit=5)[5].replace(r"\%", "%")  # as cron reads it
    subprocess.run(["env", "-i", "sh", "-c", command], cwd="/", check=True)
    then = overview(capsys, home)
    answer(capsys, "--home", str(home), "protect", "--apply")
    assert 2 == len(lines_of(table))  # twice is once

    assert (True, "protected") == (done["applied"], done["protection"]["state"])
    assert ("5 4 * * * true", "17 * * * *") == (other, own[:10])
    assert 365 == json.loads(settings.read_text())["cleanupPeriodDays"]
    assert "Protected archived " in first
    assert "2 of 2 sessions: recollect" in first
    assert "3 of 3 sessions: recollect" in then
    archived = answer(capsys, "protect", "list")["sessions"]
    assert third.stem in {one["id"] for one in archived}

    answer(capsys, "--home", str(home), *shlex.split(done["undo"])[3:])
    assert ["5 4 * * * true"] == lines_of(table)
    assert '{"cleanupPeriodDays": 30}' == settings.read_text()
    assert "no: no scheduled archive" in overview(capsys, home)
    assert 3 == len(answer(capsys, "protect", "list")["sessions"])


def test_the_last_entry_leaves_no_table_behind(
    home: Path, table: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    answer(capsys, "--home", str(home), "protect", "--apply")
    answer(capsys, "--home", str(home), "protect", "off")
    assert 1 == len(lines_of(table))
    answer(capsys, "--home", str(home), "protect", "off", "--apply")

    assert 1 == subprocess.run(table, capture_output=True, check=False).returncode
    assert 3 == main(["--home", str(home), "protect", "off"])


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which a stand-in for crontab keeps its table, byte for byte: it judges no entry."""
    programs = tmp_path / "stand-in"
    programs.mkdir()
    (programs / "crontab").write_text(STAND_IN)
    (programs / "crontab").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    return programs / "table"


@pytest.mark.parametrize(
    "others",
    [
        b"# caf\xe9, in another encoding\n5 4 * * * true\n",
        b"5 4 * * * echo a\x0bb\x0cc\x1cd\xc2\x85e\xe2\x80\xa8f\n",
        b"5 4 * * * true\r\n\n\n",
        b"\n",
        b"5 4 * * * true\n5 5 * * * without its newline",
    ],
    ids=[
        "encoding",
        "line breaks that are none",
        "carriage returns",
        "nothing but a newline",
        "no last newline",
    ],
)
def test_the_entries_of_others_keep_every_byte(
    others: bytes, home: Path, stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Set up, set up again, removed."""
    stored.write_bytes(others)
    words = ("--home", str(home), "protect", "--scheduler", "cron")
    answer(capsys, *words, "--apply")
    answer(capsys, *words, "--apply")
    own = [line for line in stored.read_bytes().split(b"\n") if b" # recollect-protect-" in line]
    without = stored.read_bytes().replace(own[0] + b"\n", b"")
    answer(capsys, "--home", str(home), "protect", "off", "--apply")

    assert (1, others, others) == (len(own), without, stored.read_bytes())


def test_an_entry_of_ours_that_lost_its_newline_takes_none_of_another(
    home: Path, stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored.write_bytes(b"5 4 * * * true\n")
    answer(capsys, "--home", str(home), "protect", "--scheduler", "cron", "--apply")
    whole = stored.read_bytes()
    stored.write_bytes(whole.removesuffix(b"\n"))
    answer(capsys, "--home", str(home), "protect", "--scheduler", "cron", "--apply")

    assert whole == stored.read_bytes()


@pytest.mark.parametrize("scheduler_name", ["cron", "systemd", "launchd", "windows"])
@pytest.mark.parametrize("character", ["\x0b", "\x1b", "\x7f", "\x85", "\udce9"])
def test_a_home_that_no_entry_can_name_is_refused(
    character: str, scheduler_name: str, own_home: Path, stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Control characters, and bytes that are no UTF-8: exit 2, and no table."""
    root = own_home / f"a{character}b"
    put(root, ONE, TALK)
    capsys.readouterr()
    assert 2 == main(["--home", str(root), "protect", "--scheduler", scheduler_name, "--apply"])

    assert "no scheduler can run it" in capsys.readouterr().err
    assert not stored.exists()


@pytest.mark.parametrize("why", ["home", "sessions"])
def test_a_run_that_finds_nothing_fails_and_is_seen(
    why: str, home: Path, own_home: Path, table: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status, overview, log: never "0 sessions, ok"."""
    answer(capsys, "--home", str(home), "protect", "--apply")
    (home if why == "home" else home / "projects").rename(own_home / "gone")
    code = main(["--home", str(home), "protect", "--run"])
    told = capsys.readouterr().err
    home.mkdir(exist_ok=True)
    log = (own_home / "xdg-data" / "recollect" / "protect" / "log").read_text().splitlines()

    assert (3 if why == "home" else 1) == code
    reason = "no Claude home at" if why == "home" else "no session was found in"
    assert reason in told
    assert f"FAILED: protect: {reason}" in log[-1] or f"FAILED: {reason}" in log[-1]
    told = overview(capsys, home)
    assert (True, True) == ("no: last run" in told, reason in told)


def test_a_session_that_cannot_be_archived_is_seen(
    home: Path, table: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are archived; exit 1, and the overview says how many and why."""
    (log,) = home.glob(f"projects/*/{TWO}.jsonl")
    log.rename(home / "real.jsonl")
    log.symlink_to(home / "real.jsonl")
    assert 1 == main(["--home", str(home), "protect", "--apply"])
    told = overview(capsys, home)

    assert "in part: last run" in told
    assert f"1 of 2 sessions archived, 1 not archived; the first, {TWO}" in told


def test_another_home_and_an_old_run_are_no_protection(
    home: Path, own_home: Path, table: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    answer(capsys, "--home", str(home), "protect", "--apply")
    other = own_home / "second"
    put(other, ONE, TALK)
    assert f"{other} is not part of it" in overview(capsys, other)
    long_ago = dt.datetime.now(dt.UTC) - dt.timedelta(days=3)
    record(own_home / "xdg-data" / "recollect", ProtectRun(long_ago, 2, 2))
    told = overview(capsys, home)

    assert "no: last run 3 d ago, 2 of 2 sessions archived, the scheduler (cron) does not run it" in told


def protected(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """What the overview and `protect` say of all homes of the machine, as documents and as texts: they must agree."""
    documents = [answer(capsys, word)["protection"] for word in ("", "protect")]
    texts = []
    for word in ("", "protect"):
        assert 0 == main([word])
        told = " ".join(capsys.readouterr().out.split())
        texts.append(told.partition("Protected ")[2])
    assert documents[0] == documents[1]
    assert all(documents[0]["reason"] in text for text in texts)
    return documents[0]["state"], documents[0]["reason"]


def test_a_home_of_another_agent_that_came_later_is_not_protected(
    own_home: Path, table: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Every missing home is named as its client has it, and so is the command that adds all of them."""
    put(own_home / ".claude", ONE, TALK)
    answer(capsys, "protect", "--apply")
    assert "protected" == protected(capsys)[0]
    tiny_homes.codex(own_home / ".codex")
    tiny_homes.qwen(own_home / ".qwen")

    homes = f"{own_home / '.codex'}, {own_home / '.qwen'}"
    assert ("other home", f"{homes} are not part of it (recollect protect --apply)") == protected(capsys)
    answer(capsys, "protect", "--apply")
    assert ("protected", "") == protected(capsys)


def test_homes_of_other_agents_alone_are_told_to_be_unprotected(
    own_home: Path, table: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    tiny_homes.codex(own_home / ".codex")
    assert ("off", "no scheduled archive (recollect protect)") == protected(capsys)
    answer(capsys, "protect", "--apply")
    assert "protected" == protected(capsys)[0]


def test_the_command_that_adds_a_named_home_keeps_the_others(
    home: Path, own_home: Path, table: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What is set up replaces what was, so it names them; and the directory of ours, where it is not the usual one."""
    data = str(own_home / "elsewhere")
    answer(capsys, "--home", str(home), "--data", data, "protect", "--apply")
    other = tiny_homes.codex(own_home / "second").parents[4]
    reason = answer(
        capsys,
        "--home",
        str(other),
        "--data",
        data,
    )["protection"]["reason"]
    assert reason.startswith(f"{other} is not part of it (recollect --home ")

    answer(capsys, *shlex.split(reason.partition("(")[2].removesuffix(")"))[1:])
    both = ["--home", str(home), "--home", str(other), "--data", data]
    assert (
        "protected"
        == answer(
            capsys,
            *both,
        )["protection"]["state"]
    )


def test_other_systems_get_the_text(home: Path, table: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A property list and a task, well-formed, with absolute paths; nothing is claimed to be loaded."""
    import plistlib
    from xml.etree import ElementTree

    mac = answer(capsys, "--home", str(home), "protect", "--scheduler", "launchd")
    (plist,) = mac["entry"].values()
    windows = answer(capsys, "--home", str(home), "protect", "--scheduler", "windows")
    (task,) = windows["entry"].values()
    words = plistlib.loads(plist.encode())["ProgramArguments"]

    assert (str(home), "--run") == (words[words.index("--home") + 1], words[-1])
    assert Path(words[0]).is_absolute()
    texts = [one.text for one in ElementTree.fromstring(task).iter() if one.tag.endswith("Arguments")]
    assert str(home) in str(texts[0])
    assert 0 == main(["--home", str(home), "protect", "--scheduler", "launchd", "--apply"])
    assert "cannot load it for you" in capsys.readouterr().out


def test_the_units_of_systemd_are_valid(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own verifier accepts them where it is installed; the quoting is checked everywhere."""
    planned = answer(capsys, "--home", str(home), "protect", "--scheduler", "systemd")
    files = []
    for place, text in planned["entry"].items():
        files.append(tmp_path / Path(place).name)
        files[-1].write_text(text)
    assert "100%% mine" in files[0].read_text()
    assert {".service", ".timer"} == {file.suffix for file in files}
    if shutil.which("systemd-analyze"):
        done = subprocess.run(
            ["systemd-analyze", "verify", *map(str, files)], capture_output=True, text=True, check=False
        )
        assert (0, "") == (done.returncode, done.stderr)


def test_the_program_is_named_by_an_absolute_path(tmp_path: Path) -> None:
    """The script beside the interpreter, else the interpreter; what uvx made for one start is refused."""
    python = tmp_path / "bin" / "python"
    assert [str(python), "-m", "recollect"] == scheduler.program_words(str(python))
    python.parent.mkdir()
    (python.parent / "recollect").touch(0o755)
    assert [str(python.parent / "recollect")] == scheduler.program_words(str(python))
    with pytest.raises(UsageError, match="uvx"):
        scheduler.program_words("/home/anna/.cache/uv/archive-v0/abc/bin/python")


def test_what_cron_cannot_run_is_refused() -> None:
    """A line break in a path, and a command longer than cron reads."""
    with pytest.raises(UsageError, match="no scheduler can run it"):
        scheduler.job_words([Path("/srv/a\nb")], Path("/data"), "protect")
    long = scheduler.ScheduledJob("recollect-x", ("/bin/true", "x" * 1000), "x")
    with pytest.raises(UsageError, match="too long for cron"):
        scheduler.cron_line(long)


def test_without_a_scheduler_nothing_is_promised(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A container has neither systemd nor cron: the plan says so, and what can be done."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("recollect.system.scheduler._has_systemd", lambda: False)
    for words, code in (([], 0), (["--apply"], 3)):
        assert code == main(["--home", str(home), "protect", *words])
        told = capsys.readouterr()
        assert "no scheduler is here" in told.out + told.err
        assert " protect now` archives once" in told.err
