"""A program to be run under strace: three appends to one log, and what each was told, as JSON."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path

from recollect.storage.logs.log import Log
from tests.crash.answers import entry, told

ENTRIES = [entry("first"), entry("second", 500), entry("third")]


def main() -> None:
    log = Log(Path(sys.argv[1]), lock_timeout=0.2)
    print(json.dumps([told(functools.partial(log.append, line, name)) for line, name in ENTRIES]))


if __name__ == "__main__":
    main()
