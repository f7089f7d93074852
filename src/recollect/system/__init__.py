"""The operating system in one place: durable writes, locks, paths, files opened without following links."""
