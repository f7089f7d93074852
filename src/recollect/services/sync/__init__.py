"""Sync sessions between machines: push, pull, mirror."""
