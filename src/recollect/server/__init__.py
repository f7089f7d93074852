"""The team server: logs of many machines in one database, over HTTP.

``app.py`` is the door (who may do what), ``routes_*.py`` speak HTTP, ``facts.py`` reads lines with the same code as the
local index, ``database.py`` says what a database must do, and ``memory.py``, ``sqlite.py`` and ``postgres.py`` do it.
docs/design/server.md is the protocol.
"""
