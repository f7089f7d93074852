"""The operating system: durable writes, locks, paths, files opened without following links."""
