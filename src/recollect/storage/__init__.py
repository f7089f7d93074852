"""Files: the only room that opens, locks, appends to and follows logs."""
