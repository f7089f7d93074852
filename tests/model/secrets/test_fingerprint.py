"""Fingerprints: equal for equal secrets, and of no use to anybody else."""

from __future__ import annotations

from recollect.model.secrets.fingerprint import fingerprint


def test_a_known_fingerprint() -> None:
    """HMAC-SHA-256, RFC 4231 test case 2: key "Jefe", "what do ya want for nothing?"."""
    assert "5bdcc146" == fingerprint("what do ya want for nothing?", b"Jefe")


def test_it_depends_on_key_and_secret() -> None:
    """Another key, another fingerprint; another secret too."""
    assert 3 == len({fingerprint("a", b"1" * 32), fingerprint("a", b"2" * 32), fingerprint("b", b"1" * 32)})


def test_half_a_surrogate_pair_has_one_too() -> None:
    """Transcripts hold such text."""
    assert 8 == len(fingerprint("\ud800", b"k"))
