"""Keep the index up to date with the logs: open, refresh, rebuild."""
