"""Transcripts of the Claude Agent SDK on disk."""
