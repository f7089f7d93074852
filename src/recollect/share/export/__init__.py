"""Export a session: as its own lines, in another dialect, as HTML."""
