"""Synchronises logs between machines: the wire protocol, and the client side."""
