"""Search every text of every log, through the index or by reading the logs."""
