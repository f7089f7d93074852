"""Decisions without I/O: what a tool call would do, and whether the rules permit it.

Facts about the file system come in through ``world.World``; nothing here opens a file, reads a
clock or starts a process.
"""
