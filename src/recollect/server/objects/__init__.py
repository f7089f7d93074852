"""Bodies of logs in an object store: what a store is, and the work of moving bodies there."""
