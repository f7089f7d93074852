"""Keep the index in step with the logs: open it, refresh it, rebuild it."""
