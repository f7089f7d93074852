"""Files: the only package that opens, locks, appends to and follows logs."""
