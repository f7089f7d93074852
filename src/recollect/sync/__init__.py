"""Logs that travel between machines: what both ends must agree on, and the ends that are not the server."""
