"""Numbered steps that bring a session from one layout on disk into another; ``registry`` lists them."""
