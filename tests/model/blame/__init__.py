"""Tests of the owners of lines."""
