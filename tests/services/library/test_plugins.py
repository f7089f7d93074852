"""Exporters and checks of other packages: found by entry point, imported when asked for, never the end of us."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from recollect import Home, PluginFailed, Severity
from recollect.cli.main import main
from recollect.services.library.plugins import exported, exporter_names, session_checks
from tests.small_home import ONE, TALK, put

Install = Callable[[str, str], None]

MODULE = """
import sys
import recollect

def titles(session):
    yield f"title: {session.title}\\n".encode()
    for message in session.conversation().messages:
        yield f"{message.role}: {message.text}\\n".encode()

def breaks(session):
    yield b"begun\\n"
    raise RuntimeError("out of ink")

def text(session):
    return ["not bytes"]

def long_talk(session):
    count = len(session.conversation().messages)
    if count > 3:
        yield recollect.Finding("too-long", recollect.Severity.WARNING, f"{count} messages", "start a new one")

def odd(session):
    return ["not a finding"]

number = 7
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    put(tmp_path / "home", ONE, TALK)
    return tmp_path / "home"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a package with entry points where Python looks for packages."""
    place = tmp_path / "packages"

    def installed(exporters: str, checks: str) -> None:
        info = place / "ink-1.0.dist-info"
        info.mkdir(parents=True)
        (place / "ink_plugin.py").write_text(MODULE)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ink\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(
            f"[recollect.exporters]\n{textwrap.dedent(exporters)}\n[recollect.checks]\n{textwrap.dedent(checks)}\n"
        )
        monkeypatch.syspath_prepend(str(place))
        monkeypatch.delitem(sys.modules, "ink_plugin", raising=False)

    return installed


def test_an_exporter_is_a_format(
    home: Path, install: Install, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """``export --format NAME`` writes what it gives."""
    install("titles = ink_plugin:titles", "")

    assert ["titles"] == exporter_names()
    assert 0 == main(["--home", str(home), "export", ONE, "--format", "titles"])
    assert b"title: Q1\nuser: Q1\nassistant: A1\nuser: Q2\nassistant: A2\n" == capsysbinary.readouterr().out


def test_secrets_are_taken_out_of_what_an_exporter_gives(
    home: Path, install: Install, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """As out of our own formats."""
    install("titles = ink_plugin:titles", "")
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    talk = [{**TALK[0], "message": {"role": "user", "content": f"use {token}"}}, TALK[1]]
    put(home, ONE, talk)

    main(["--home", str(home), "export", ONE, "--format", "titles"])

    written = capsysbinary.readouterr().out
    assert token.encode() not in written
    assert b"[redacted:" in written


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("ink_plugin:breaks", "RuntimeError: out of ink"),
        ("ink_plugin:text", "gave str instead of bytes"),
        ("ink_plugin:number", "is int, which cannot be called"),
        ("ink_plugin:missing", "cannot be loaded: AttributeError"),
        ("no_such_module:x", "cannot be loaded: ModuleNotFoundError"),
    ],
)
def test_an_exporter_that_fails_is_named(
    home: Path,
    install: Install,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    entry: str,
    reason: str,
) -> None:
    """A typed error with its name and package; no file is left behind, and the command ends in order."""
    install(f"faulty = {entry}", "")
    session = Home(home).session(ONE)

    with pytest.raises(PluginFailed, match="'faulty' of package ink") as failed:
        list(exported("faulty", session))
    assert failed.value.reason.startswith(reason)
    target = tmp_path / "out.txt"
    assert 1 == main(["--home", str(home), "export", ONE, "--format", "faulty", "--output", str(target)])
    assert "'faulty' of package ink" in capsys.readouterr().err
    assert not target.exists()


def test_an_unknown_format_names_the_known_ones(
    home: Path, install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of other packages too, which are not imported for it."""
    install("titles = ink_plugin:titles", "")

    assert 2 == main(["--home", str(home), "export", ONE, "--format", "nonsense"])
    assert "titles" in capsys.readouterr().err
    assert "ink_plugin" not in sys.modules


def test_a_check_adds_findings(home: Path, install: Install) -> None:
    """Under its own name, with session and place filled in, and counted in the summary."""
    install("", "talk = ink_plugin:long_talk")

    report = Home(home).check(ONE)

    (found,) = [one for one in report.findings if one.code == "talk/too-long"]
    assert (ONE, "4 messages", Severity.WARNING) == (found.session, found.what, found.severity)
    assert found.path.endswith(f"{ONE}.jsonl")
    assert (1, 1) == (report.summary.by_code["talk/too-long"], report.exit_code)
    assert "talk/too-long" not in Home(home).check(ONE, with_plugins=False).summary.by_code


@pytest.mark.parametrize("entry", ["ink_plugin:breaks", "ink_plugin:odd", "ink_plugin:number", "nowhere:x"])
def test_a_check_that_fails_is_a_finding(home: Path, install: Install, entry: str) -> None:
    """It names the check and its package; the other checks still run, and it is said once."""
    other = "5b1d9c1e-0000-4000-8000-000000000002"
    put(home, other, [{**line, "sessionId": other} for line in TALK])
    install("", f"broken = {entry}\ntalk = ink_plugin:long_talk")

    report = Home(home).check(with_secrets=False)

    (found,) = [one for one in report.findings if one.code == "plugin-failed"]
    assert "check 'broken' of package ink" in found.what
    assert 2 == report.summary.by_code["talk/too-long"]


def test_the_command_runs_them_too(home: Path, install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    """And can choose their codes, or leave them out."""
    install("", "talk = ink_plugin:long_talk")

    assert 1 == main(["--home", str(home), "check", ONE, "--code", "talk/too-long"])
    assert "4 messages" in capsys.readouterr().out
    main(["--home", str(home), "check", ONE, "--no-plugins"])
    assert "4 messages" not in capsys.readouterr().out


def test_our_own_formats_look_for_no_plugin(home: Path) -> None:
    """Not even the list of installed packages is read for them."""
    code = (
        f"from recollect.cli.main import main\nmain(['--home', {str(home)!r}, 'export', '@last'])\n"
        "import sys; sys.exit('importlib.metadata' in sys.modules)"
    )

    assert 0 == subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode


def test_without_a_check_of_another_package_what_reads_packages_is_not_loaded(home: Path) -> None:
    """To see that there is none takes a tenth of the time."""
    code = (
        f"from recollect.cli.main import main\nmain(['--home', {str(home)!r}, 'check'])\n"
        "import sys; sys.exit('importlib.metadata' in sys.modules)"
    )

    assert 0 == subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode


@pytest.mark.parametrize(
    "place", ["ink-1.0.dist-info", "ink.EGG-INFO", "ink.egg/EGG-INFO", "ink.zip/ink-1.0.dist-info"]
)
def test_a_package_is_found_wherever_packages_may_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """In a directory, in an egg, in an archive."""
    container, _, inner = place.rpartition("/")
    packed = {
        f"{inner}/METADATA": "Name: ink\nVersion: 1.0\n",
        f"{inner}/entry_points.txt": "[recollect.checks]\na = b:c\n",
    }
    where = tmp_path / container
    if container.endswith(".zip"):
        with zipfile.ZipFile(where, "w") as archive:
            for name, text in packed.items():
                archive.writestr(name, text)
    else:
        for name, text in packed.items():
            (where / name).parent.mkdir(parents=True, exist_ok=True)
            (where / name).write_text(text)
    monkeypatch.syspath_prepend(str(where))

    assert 1 == len(session_checks())
