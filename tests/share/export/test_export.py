"""Sessions carried out of their home: whole files, never halves."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.ask.library import Home
from recollect.ask.secrets.redactor import Redactor
from recollect.errors import StorageError, UsageError
from recollect.share.export import export
from tests.cli.session_logs import SESSION, branched, compacted, talk
from tests.model.secrets.samples import SAMPLES, Dice, private_key


def test_log_bytes_are_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte for byte over the edges of pieces, with NUL, CR and an unterminated tail."""
    monkeypatch.setattr(export, "_CHUNK", 7)
    data = b'{"a":1}\r\n\x00\x1b{torn\n\xff\xfe{"b"'
    log = tmp_path / "s.jsonl"
    log.write_bytes(data)

    assert data == b"".join(export.log_bytes(log))


def test_a_file_is_for_its_owner_only(tmp_path: Path) -> None:
    """0600 whatever the umask: a transcript holds secrets (K4)."""
    before = os.umask(0)
    try:
        written = export.write_file(tmp_path / "out", [b"ab", b"c"])
    finally:
        os.umask(before)

    assert (3, b"abc") == (written, (tmp_path / "out").read_bytes())
    assert 0o600 == stat.S_IMODE((tmp_path / "out").stat().st_mode)


def test_a_file_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    """Without force the old bytes stay and nothing is left beside them."""
    target = tmp_path / "out"
    target.write_bytes(b"old")
    with pytest.raises(UsageError, match="already exists"):
        export.write_file(target, [b"new"])

    assert ([target], b"old") == (list(tmp_path.iterdir()), target.read_bytes())


def test_force_replaces_a_file(tmp_path: Path) -> None:
    """The new bytes, and nothing left beside them."""
    target = tmp_path / "out"
    target.write_bytes(b"old")
    export.write_file(target, [b"new"], force=True)

    assert ([target], b"new") == (list(tmp_path.iterdir()), target.read_bytes())


@pytest.mark.parametrize("force", [False, True])
def test_a_failure_half_way_leaves_what_was_there(tmp_path: Path, force: bool) -> None:
    """Neither half a file nor a temporary one; the old file, if any, is untouched."""
    target = tmp_path / "out"
    if force:
        target.write_bytes(b"old")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}

    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise OSError(5, "the disk went away")

    with pytest.raises(StorageError):
        export.write_file(target, pieces(), force=force)

    assert before == {path: path.read_bytes() for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("name", "words"), [("", "is a directory"), ("no/such/out", "there is no directory")]
)
def test_places_that_take_no_file_are_refused(tmp_path: Path, name: str, words: str) -> None:
    """Before anything is read."""
    with pytest.raises(UsageError, match=words):
        export.check_target(tmp_path / name, force=True)


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    """A dangling link in the file's place is something that is there."""
    link = tmp_path / "out"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="already exists"):
        export.write_file(link, [b"x"])

    assert not (tmp_path / "elsewhere").exists()


def test_flat_holds_the_active_branch_and_tells_its_losses(own_home: Path) -> None:
    """The other branch is not in it; parents and directories have no place in that dialect."""
    branched().write(own_home / ".claude")
    conversion = export.flat(Home().session(SESSION))
    lines = [json.loads(line) for line in conversion.lines]

    assert ["Start", "Started", "Second try", "Tried second"] == [line["content"] for line in lines]
    assert {"parents", "context"} <= {str(loss.code) for loss in conversion.losses}


def test_flat_tells_damage_as_a_loss(own_home: Path) -> None:
    """A torn line is one loss, and the rest comes through."""
    talk().raw("{torn").write(own_home / ".claude")
    conversion = export.flat(Home().session(SESSION))

    assert [1] == [loss.count for loss in conversion.losses if loss.code == "damage"]
    assert b"Because 1 is not 2." in conversion.lines[-1]


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_lines_are_redacted_over_the_edges_of_pieces(tmp_path: Path, size: int) -> None:
    """Whatever the pieces, a line is looked at as a whole; one without a newline comes last."""
    token = SAMPLES["github-pat"].make(Dice("pieces"))
    data = f'{{"a":"x"}}\n{{"b":"see {token}"}}\n\n{{"c":"y"}}\n{{"torn": "{token}'.encode()
    redactor = Redactor(tmp_path)
    done = b"".join(redactor.lines(data[at : at + size] for at in range(0, len(data), size)))
    mark = f"[redacted:github-pat:{redactor.found[0].fingerprint}]".encode()

    assert data.replace(token.encode(), mark) == done
    assert 2 == len(redactor.found)


def test_fragments_of_a_document_stay_one(tmp_path: Path) -> None:
    """A private key in a list of lines is taken out string by string, never across the document."""
    lines = private_key(Dice("fragments")).splitlines()
    pieces = [b'{"messages": [', json.dumps({"lines": lines, "n": 1}).encode(), b'], "total": 1}']
    document = json.loads(b"".join(Redactor(tmp_path).fragments(pieces)))

    assert (len(lines), 1, 1) == (
        len(document["messages"][0]["lines"]),
        document["messages"][0]["n"],
        document["total"],
    )
    assert "BEGIN" not in str(document)


def test_flat_can_hold_what_a_compaction_hides(own_home: Path) -> None:
    """With ``whole`` the first prompt is there again."""
    compacted().write(own_home / ".claude")
    session = Home().session(SESSION)

    assert [False, True] == [
        b"Long ago" in b"".join(export.flat(session, whole=whole).lines) for whole in (False, True)
    ]
