"""Repairing a log: from its lines to a plan of what each line becomes, in memory, without touching a file.

draft.py      the log as rows that can be changed; every original byte is kept or set aside
lines.py      what can be recovered of an unreadable line
order.py      times and links, so that the client finds the whole conversation
calls.py      every call has its result, every result its call, every id is used once
content.py    blocks the API refuses: empty text, unsigned thinking, images
actions.py    the table of actions on a line
proof.py      the result, scanned with the rules of a check, against the log as it is
slim.py       what a session does not need to be resumed
plan.py       all of it in order, repeated until nothing is left to do
"""
