"""Tests of who wrote a file."""
