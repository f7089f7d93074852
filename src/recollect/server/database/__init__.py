"""Where the team server keeps its data: one contract, SQLite and PostgreSQL."""
