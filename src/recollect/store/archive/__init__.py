"""Compressed, verified copies of sessions: readable in place, restored byte for byte."""
