"""Which change wrote each line of a file."""
