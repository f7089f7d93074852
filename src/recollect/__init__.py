"""recollect."""
