"""The operating system: durable writes, locks, paths, processes, schedulers.

``fsops`` is the only module of core that changes files, with ``openat`` for paths that may be links. Nothing here knows what a
session is. Open ``fsops`` for a write, ``paths`` for where agents and our own files lie, ``lock`` for who may write.
"""
