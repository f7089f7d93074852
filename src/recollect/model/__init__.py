"""What a line, a conversation, a price, a finding is: the same input always gives the same answer.

No I/O, no clock, no randomness; a contract proves it. Bytes of a log become entries in ``lines``, what an index needs of
them comes from ``views``. Open ``lines/entry.py`` first, then ``conversation/graph.py`` and ``cost/report.py``.
"""
