"""Preserve the history of a project whose directory was renamed, moved or shared."""
