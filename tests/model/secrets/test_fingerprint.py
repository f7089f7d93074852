"""Fingerprints: equal for equal secrets, and of no use to anybody else."""

from __future__ import annotations

from recollect.model.secrets.redaction import fingerprint


def test_a_known_fingerprint() -> None:
    """HMAC-SHA-256, RFC 4231 test case 2: key "Jefe", "what do ya want for nothing?"."""
    assert "5bdcc146" == fingerprint("what do ya want for nothing?", b"Jefe")
