"""Permission decisions without I/O: what a tool call would do, and whether the rules allow it.

Facts about the file system come in through ``world.World``. Nothing here opens a file, reads a clock or
starts a process.
"""
