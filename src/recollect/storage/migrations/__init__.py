"""Numbered steps that convert a session from one disk layout to another; ``registry`` lists them."""
