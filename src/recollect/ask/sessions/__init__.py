"""Homes and sessions: find them, list them, read them."""
