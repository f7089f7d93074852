"""Narrow, fast views of one line, for readers that need only a part of it."""
