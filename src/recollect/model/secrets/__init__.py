"""Credentials in text: patterns, search, and redaction."""
