"""Tests of the room that opens files."""
