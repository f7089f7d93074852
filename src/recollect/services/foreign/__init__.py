"""Sessions of other agents: their homes, their own files, conversion."""
