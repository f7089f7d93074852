"""Programs for those who work on recollect; none is shipped."""
