"""Print every rate: `python -m tests.oracle.rates [TOPIC ...]`; exit 1 when one is below its goal."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator

import tests.oracle.rates as package
from tests.oracle.rates.rate import Rate


def topics() -> list[str]:
    """The modules of this package that measure something."""
    return sorted(
        one.name for one in pkgutil.iter_modules(package.__path__) if one.name not in {"rate", "__main__"}
    )


def measured(chosen: list[str]) -> Iterator[Rate]:
    """The rates of the chosen topics."""
    for topic in chosen:
        yield from importlib.import_module(f"{package.__name__}.{topic}").measure()


def main(arguments: list[str]) -> int:
    """Print one line a rate and, below it, what still differs."""
    below = 0
    for rate in measured(arguments or topics()):
        below += not rate.is_met
        mark = "" if rate.is_met else "  below the goal"
        print(
            f"{rate.name:<44} {rate.same:>5} of {rate.total:<5} {rate.share:7.2%}  goal {rate.goal:.0%}{mark}",
            flush=True,
        )
        for difference in rate.differences:
            print(f"    {difference}")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
