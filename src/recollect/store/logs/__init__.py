"""One log on disk: append, read, follow, summarise."""
