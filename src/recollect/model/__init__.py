"""Entries and what they mean. No I/O, no clock, no randomness in this package."""
