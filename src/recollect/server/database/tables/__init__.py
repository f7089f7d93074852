"""The tables of the server as migration steps, and what PostgreSQL does by itself."""
