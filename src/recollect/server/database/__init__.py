"""The database of the team server: one contract, implemented by SQLite and PostgreSQL."""
