"""Versions of the files a session touched, reconstructed from its log."""
