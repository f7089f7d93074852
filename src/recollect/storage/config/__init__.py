"""Settings files: recollect's own and the client's."""
