"""A conversation as a page or an export shows it."""
