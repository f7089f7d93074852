"""Repair sessions that the client cannot resume, or resumes only in part."""
