"""Files: homes, logs, archive, journal of changes, trash, settings.

One entry is one line, written at once and synced before anybody is told (law 2). No byte is destroyed: ``changes`` sets
originals aside and ``trash`` keeps what was removed. Nothing here knows a price or an answer. Open ``home.py`` for a home,
``logs/log.py`` for an append, ``logs/reader.py`` for reading, ``changes/plan.py`` for a change.
"""
