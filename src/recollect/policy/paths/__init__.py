"""Which files a call touches: every spelling of a path, the rules for paths, and names that are always protected."""
