"""The command: options, printing and exit codes; the answers come from ``ask`` and ``change``.

``main`` has the table of commands and imports a command's module when it runs. Text of a transcript reaches the terminal
through ``terminal/text.py`` only. Open ``main``, then the module of a command: ``list`` shows how one is made.
"""
