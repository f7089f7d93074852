"""Mending a log: from its lines to a plan of what each line becomes, in memory and without touching a file.

draft.py      the log as rows that can be changed; every byte of the original has one fate
lines.py      what can be saved of a line that cannot be read
order.py      times and links: the conversation is found, and found whole
calls.py      every call has its result, every result its call, every id is used once
content.py    blocks the API refuses: empty text, unsigned thinking, images
actions.py    what can be done to a line, in words
proof.py      the result, scanned with the rules of a check, against the log as it is
slim.py       what a session does not need to be resumed
plan.py       all of it in order, again and again until nothing is left to do
"""
