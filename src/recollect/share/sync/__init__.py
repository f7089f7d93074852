"""Sync sessions between machines over a team server.

``wire`` says what client and server exchange; ``http_remote`` asks a server. ``push`` and ``pull`` move
lines by their positions, ``install`` puts what was pulled into a home, ``lines`` changes lines on their way. ``sync`` is what
the commands open. Nothing is overwritten on either side.
"""
