"""Changes to sessions, planned or made; a file for each kind, so that a command loads its own."""
