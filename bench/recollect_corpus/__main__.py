"""Write a home of generated sessions and what is in it: python -m bench.recollect_corpus DIR [--size-mb 100] [--seed 1] ..."""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.recollect_corpus import TRUTH, Options, write_corpus

parser = argparse.ArgumentParser(prog="python -m bench.recollect_corpus", description=__doc__)
parser.add_argument("home", type=Path, help="a directory that does not exist yet")
for name, default in Options()._asdict().items():
    parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
given = vars(parser.parse_args())
place = given.pop("home")
if place.exists():
    parser.error(f"{place} is there already")
truth = write_corpus(place, Options(**given))
print(f"{truth['bytes']:,} bytes, {truth['sessions']:,} sessions; what is in them: {place / TRUTH}")
