"""The key of fingerprints: made once, for its owner only, the same for everybody who asks."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from recollect.errors import DamagedData, StorageError
from recollect.store.own_settings import fingerprint_key
from recollect.system import fsops


def test_it_is_made_once_and_kept(tmp_path: Path) -> None:
    """Thirty-two bytes, the same at every call, nothing else left beside it."""
    key = fingerprint_key(tmp_path / "data")

    assert (32, key) == (len(key), fingerprint_key(tmp_path / "data"))
    assert ["fingerprint.key"] == [path.name for path in (tmp_path / "data").iterdir()]


def test_two_stores_have_two_keys(tmp_path: Path) -> None:
    """Nobody can compare fingerprints of two machines."""
    assert fingerprint_key(tmp_path / "a") != fingerprint_key(tmp_path / "b")


def test_it_is_for_its_owner_only(tmp_path: Path) -> None:
    """K4: 0600 in 0700 under any umask."""
    before = os.umask(0)
    try:
        fingerprint_key(tmp_path / "data")
    finally:
        os.umask(before)

    modes = [
        stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "data", tmp_path / "data/fingerprint.key")
    ]
    assert [0o700, 0o600] == modes


@pytest.mark.parametrize("content", [b"", b"not hex", b"abcd", b"00" * 31, b"00" * 33, b"\xff" * 64])
def test_a_damaged_key_is_not_used(tmp_path: Path, content: bytes) -> None:
    """A short key would give fingerprints that can be guessed; nothing is made in its place."""
    (tmp_path / "fingerprint.key").write_bytes(content)
    with pytest.raises(DamagedData, match="not a key"):
        fingerprint_key(tmp_path)

    assert content == (tmp_path / "fingerprint.key").read_bytes()


def test_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    """It could lead to a file that others know."""
    (tmp_path / "known").write_text("00" * 32)
    (tmp_path / "fingerprint.key").symlink_to(tmp_path / "known")
    with pytest.raises(StorageError):
        fingerprint_key(tmp_path)


def test_whoever_comes_second_takes_the_firsts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process puts its key there at the last moment: that one counts, and ours is gone."""
    real = fsops.rename_new

    def beaten(source: Path, target: Path) -> None:
        target.write_text("ab" * 32)
        real(source, target)

    monkeypatch.setattr(fsops, "rename_new", beaten)

    assert bytes.fromhex("ab" * 32) == fingerprint_key(tmp_path)
    assert ["fingerprint.key"] == [path.name for path in tmp_path.iterdir()]


def test_many_that_ask_at_once_get_the_same(tmp_path: Path) -> None:
    """Processes that start at the same moment."""
    script = (
        "import sys; from pathlib import Path; from recollect.store.own_settings import fingerprint_key;"
        "print(fingerprint_key(Path(sys.argv[1])).hex())"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path / "data")], stdout=subprocess.PIPE, text=True
        )
        for _ in range(6)
    ]
    keys = {process.communicate()[0] for process in running}

    assert 1 == len(keys)
    assert ["fingerprint.key"] == [path.name for path in (tmp_path / "data").iterdir()]
