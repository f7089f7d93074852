"""Credentials in text: patterns, search, and redaction."""

KEY_BYTES = 32  # of the key for fingerprints
