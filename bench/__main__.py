"""``python -m bench [decoding|append|reading|graphs]``: run the benchmarks and print figures beside budgets."""

from __future__ import annotations

import sys

from bench import append, decoding, graphs, reading
from bench.report import table

SUITES = {
    "decoding": ("Decoding real transcripts", decoding.run),
    "append": ("Durable append", append.run),
    "reading": ("Reading large logs", reading.run),
    "graphs": ("Message graph", graphs.run),
}


def main() -> int:
    """Run the suites named on the command line, or all."""
    for name in sys.argv[1:] or SUITES:
        title, run = SUITES[name]
        print(table(title, run()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
