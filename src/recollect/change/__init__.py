"""Changes of a home or of our own store: a plan, applied when asked, taken back by `recollect undo`.

No byte is destroyed: originals are set aside first. A home that a live client writes to is refused. Nothing here prints, and
no change imports another beside it. Open ``undo`` for what all changes share, then the module named as the command.
"""
