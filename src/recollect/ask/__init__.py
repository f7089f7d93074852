"""A question to the homes of this machine, and its answer, whose structs are also its JSON.

``homes`` opens the homes and names sessions; ``library`` is the ``Home`` of programs, with every question. Between them
each question has a module or package of its own; none imports one beside it (the order is in pyproject.toml). Nothing here
prints, and nothing is written but the index and what ``show --todos`` moves. Open ``homes.py`` first.
"""
