"""Carry a session out of its home: as its own lines, in another dialect, as HTML."""
