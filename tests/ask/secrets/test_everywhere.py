"""Secrets taken out of a session and of every copy that we keep of it, for good."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import zstandard

from recollect.ask.library import Home
from recollect.ask.secrets.redactor import Fingerprints
from recollect.ask.secrets.scan import scan
from recollect.ask.sessions.session import Session
from recollect.change.redact import planned_everywhere, redact, redact_everywhere
from recollect.cli.main import main
from recollect.errors import Busy
from recollect.store.archive.archive import Archive
from recollect.store.trash import Trash
from tests.secret_home import OF_THE_SESSION, PEM, make, token
from tests.small_home import ONE, open_in_this_process, state

ROLES = {"archive", "trash", "undo", "quarantine", "left-over"}


def kept_everywhere(home: Path, data: Path) -> None:
    """A home with a secret in every place, and our own directory with a copy of the session wherever we keep one."""
    make(home)
    options = ["--home", str(home), "--data", str(data)]
    assert 0 == main([*options, "protect", "now"])
    assert 0 == main([*options, "rm", ONE, "--apply"])
    assert 0 == main([*options, "protect", "restore", ONE, "--apply"])
    log = next(home.glob(f"projects/*/{ONE}.jsonl"))
    (data / "quarantine" / ONE).mkdir(parents=True)
    shutil.copy(log, data / "quarantine" / ONE / "20260101T000000-000000.jsonl")
    shutil.copy(log, log.with_name(f".{ONE}.jsonl.0123456789ab.tmp"))
    kept = log.read_bytes()
    redact(session_of(home), data)
    log.write_bytes(kept)
    assert 0 == main([*options, "search", "nothing"])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    kept_everywhere(tmp_path / "home", tmp_path / "data")
    return tmp_path / "home"


@pytest.fixture
def data(tmp_path: Path, home: Path) -> Path:
    return tmp_path / "data"


def session_of(home: Path) -> Session:
    return Home(home).own_session(ONE)


def every_byte(*roots: Path) -> str:
    """All that is on disk, packed files unpacked."""
    found = []
    for path in (path for root in roots for path in root.rglob("*") if path.is_file()):
        text = path.read_bytes()
        if path.suffix == ".zst":
            text = zstandard.ZstdDecompressor().stream_reader(text, read_across_frames=True).read()
        found.append(text)
    return b"\n".join(found).decode("utf-8", "replace")


def kept(data: Path) -> dict[str, object]:
    """Our directory without locks, which say who held them last."""
    return {name: what for name, what in state(data).items() if "lock" not in name}


def left_of(home: Path, data: Path) -> list[str]:
    text = every_byte(home, data)
    places = [place for place, kind in OF_THE_SESSION.items() if token(place, kind) in text]
    return places + (["key"] if PEM.splitlines()[3] in text else [])


def test_the_plan_names_every_copy_and_changes_nothing(home: Path, data: Path) -> None:
    before = state(home), state(data)
    plan = planned_everywhere(session_of(home), data)

    assert ROLES == {copy.role for copy in plan.copies}
    assert before == (state(home), state(data))


def test_nothing_of_a_secret_is_left_anywhere(home: Path, data: Path) -> None:
    """Byte for byte: in the home, the archive, trash, undo, quarantine, left-over files and the index."""
    assert len(OF_THE_SESSION) < len(left_of(home, data)) + 3
    done = redact_everywhere(session_of(home), data, data / "cache")

    assert () == done.left
    assert [] == left_of(home, data)
    assert [] == scan(Home(home), [session_of(home)], data=data, everywhere=True).findings


def test_an_object_of_the_archive_that_no_manifest_names_is_cleaned_too(home: Path, data: Path) -> None:
    """A process that was killed after it had written the clean manifest leaves the old objects; another run finds them."""
    kept_objects = data / "kept"
    shutil.copytree(data / "archive" / "objects", kept_objects)
    redact_everywhere(session_of(home), data, data / "cache")
    shutil.copytree(kept_objects, data / "archive" / "objects", dirs_exist_ok=True)
    shutil.rmtree(kept_objects)
    assert left_of(home, data)
    assert [] != scan(Home(home), [session_of(home)], data=data, everywhere=True).findings
    done = redact_everywhere(session_of(home), data, data / "cache")

    assert ((), []) == (done.left, left_of(home, data))
    assert [] == Archive(data / "archive").verify()


def test_what_was_cleaned_still_works(home: Path, data: Path, tmp_path: Path) -> None:
    """The archive verifies and restores, the trash restores, the session resumes."""
    redact_everywhere(session_of(home), data, data / "cache")

    assert [] == Archive(data / "archive").verify()
    assert [] == Archive(data / "archive").unused()
    trash = Trash(data / "trash")
    log = next(home.glob(f"projects/*/{ONE}.jsonl"))
    cleaned = log.read_bytes()
    assert 0 == main(["--home", str(home), "--data", str(data), "rm", ONE, "--apply"])
    trash.restore(trash.batches()[-1])
    assert cleaned == log.read_bytes()
    assert all(json.loads(line) for line in cleaned.splitlines())


def test_an_open_session_is_refused_and_nothing_is_changed(home: Path, data: Path) -> None:
    open_in_this_process(home, ONE)
    before = state(home), kept(data)
    with pytest.raises(Busy, match="has it open"):
        redact_everywhere(session_of(home), data, data / "cache")

    assert before == (state(home), kept(data))


def test_the_command_says_what_it_did(home: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A plan, then the removal; a scan of everything afterwards is clean."""
    options = ["--home", str(home), "--data", str(data)]
    capsys.readouterr()
    assert 1 == main([*options, "secrets", ONE])
    assert 0 == main([*options, "secrets", "remove", ONE, "--everywhere"])
    planned = capsys.readouterr().out
    assert 0 == main([*options, "secrets", "remove", ONE, "--everywhere", "--apply"])
    done = capsys.readouterr().out
    assert 0 == main([*options, "secrets", ONE])

    assert "cannot be undone" in planned
    assert all(f"({role}," in planned for role in ROLES)
    assert "none is left" in done


def test_a_plan_by_secret_names_the_changes_that_can_no_longer_be_undone(
    home: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their originals hold the secret, and are deleted; another secret stays."""
    options = ["--home", str(home), "--data", str(data)]
    digits = Fingerprints(data)(token("prompt"))
    changes = [path.name for path in (data / "undo").iterdir() if path.is_dir()]
    capsys.readouterr()
    assert 0 == main([*options, "secrets", "remove", digits])
    planned = capsys.readouterr().out
    assert [name for name in changes if name in planned.partition("cannot be undone, nor can ")[2]]
    assert 0 == main([*options, "secrets", "remove", digits, "--apply"])
    text = every_byte(home, data)

    assert (False, True) == (token("prompt") in text, token("input") in text)
    assert "none is left" in capsys.readouterr().out
