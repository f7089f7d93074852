"""The documents of the local page and of the team page."""
