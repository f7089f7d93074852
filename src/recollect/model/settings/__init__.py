"""The client's settings and config files as values: layers, schema, merging."""
