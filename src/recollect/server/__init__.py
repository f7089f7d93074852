"""The team server: logs of many machines in one database, over HTTP.

``app.py`` admits requests, ``routes/`` answers them, ``facts.py`` reads lines with the same code as the
local index, and ``database/`` has the contract of a database with SQLite and PostgreSQL behind it.
docs/design/server.md is the protocol.
"""
