"""What sessions cost: reports from the index, or from the logs themselves."""
