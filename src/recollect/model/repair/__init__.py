"""Repairing a log: from its lines to a plan of what each line becomes, in memory, without touching a file.

``draft`` is the log as rows that can be changed, ``plan`` mends it in rounds until nothing is left to do and proves the
result, ``slim`` leaves out what a session does not need to be resumed.
"""
