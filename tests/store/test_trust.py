"""Which MCP servers are trusted, on disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recollect.errors import DamagedData
from recollect.store.trust import ServerGrants, TrustedServer, TrustStore

RECORD = TrustedServer("one", "/p", "2026-01-31T00:00:00+00:00", ServerGrants(allow_hosts=("api.example",)))


def test_trust_is_kept_for_this_hash_and_no_other(tmp_path: Path) -> None:
    """With what was granted; another store of the same directory sees it."""
    TrustStore(tmp_path / "d").trust("aa", RECORD, workspace="/p")
    again = TrustStore(tmp_path / "d")

    assert (RECORD, None) == (again.trusted("aa"), again.trusted("ab"))
    assert (True, False, False) == tuple(again.workspace_trusted(place) for place in ("/p", "/p/sub", "/"))


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    """0600 in a directory of 0700, under any umask."""
    before = os.umask(0)
    try:
        TrustStore(tmp_path / "d").trust("aa", RECORD)
    finally:
        os.umask(before)

    assert {0o600} == {path.stat().st_mode & 0o777 for path in (tmp_path / "d").iterdir()}
    assert 0o700 == (tmp_path / "d").stat().st_mode & 0o777


def test_the_first_descriptions_stay(tmp_path: Path) -> None:
    """A later listing is held against them; only an explicit pin replaces them."""
    store = TrustStore(tmp_path)
    store.trust("aa", RECORD)
    first = store.pin("aa", {"echo": "1"}, only_first=True)
    second = store.pin("aa", {"echo": "2"}, only_first=True)
    third = store.pin("aa", {"echo": "2"})

    assert ({"echo": "1"}, {"echo": "1"}, {"echo": "2"}) == (first, second, third)


def test_pins_do_not_bring_back_what_was_revoked(tmp_path: Path) -> None:
    """A server that is listed while its trust is taken back stays untrusted."""
    store = TrustStore(tmp_path)
    store.trust("aa", RECORD)
    store.revoke("aa")

    assert ({}, None) == (store.pin("aa", {"echo": "1"}), store.trusted("aa"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"version":2}',
        b'{"version":1,"servers":{"aa":{}}}',
        b'{"trusted":["aa"]}',
        b"\xff",
        b"[" * 9999,
    ],
)
def test_a_damaged_file_trusts_nothing_and_is_not_replaced(tmp_path: Path, content: bytes) -> None:
    """It is an error with a next step, and its bytes stay."""
    store = TrustStore(tmp_path)
    store.path.write_bytes(content)

    with pytest.raises(DamagedData, match="no MCP server is trusted"):
        store.trusted("aa")
    with pytest.raises(DamagedData):
        store.trust("aa", RECORD)
    assert content == store.path.read_bytes()


def test_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    """Somebody else's file is not taken for ours."""
    TrustStore(tmp_path / "theirs").trust("aa", RECORD)
    (tmp_path / "ours").mkdir()
    store = TrustStore(tmp_path / "ours")
    store.path.symlink_to(tmp_path / "theirs" / "mcp-trust.json")

    with pytest.raises(Exception, match=r"read .*mcp-trust\.json"):
        store.trusted("aa")
