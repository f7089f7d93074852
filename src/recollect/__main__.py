"""``python -m recollect``."""

from recollect.cli.main import program

program()
