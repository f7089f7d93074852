"""Credentials in text: what they look like, where they stand, and text without them."""
