"""How often recollect agrees with the client, one module a topic.

Each module gives `measure()`, which yields a `Rate` for every goal it can measure on this machine.
`make oracle` prints them all; `python -m tests.oracle.rates TOPIC` prints one topic.
"""
