"""docs/benchmarks.md: the figures of the last run of each size, with the machine they come from.

A run writes its own section and leaves all others as they are, also those that other programs write behind them
(``bench.bills``). Nothing in the document names a directory or a host.
"""

from __future__ import annotations

import datetime as dt
import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path

import apsw

from bench.report import Row, markdown

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

Written by `make bench` (100 MB of logs), `make bench-full` (1 GB) and `make bench-growth` (up to 5 GB); do not edit.
Each run writes its own section.

Programs that are compared ran in turns on the same files, offline and in UTC. Every process was measured with
`wait4`: *wall* and *CPU* (user and system, children included) are medians with the least and the most of the rounds,
*memory* is the most that any one of its processes held. Budgets are those of the design; most are ratios, because another machine
is another number. Logs and their exact answers are generated, see `bench/corpora.py`.
"""
SECTIONS = ("100 MB", "1 GB", "Growth to 5 GB")


def write(
    section: str, about: Sequence[str], suites: Sequence[tuple[str, list[Row]]], page: Path = PAGE
) -> None:
    """Put the figures of one run into the document."""
    before = page.read_text(encoding="utf-8") if page.is_file() else ""
    page.write_text(joined(before, section, about, suites), encoding="utf-8")


def joined(page: str, section: str, about: Sequence[str], suites: Sequence[tuple[str, list[Row]]]) -> str:
    """The document with one section replaced."""
    body = "\n\n".join(["\n".join(f"- {line}" for line in about), *(markdown(*suite) for suite in suites)])
    bodies = {**_bodies(page), section: body}
    names = [
        *(name for name in SECTIONS if name in bodies),
        *(name for name in bodies if name not in SECTIONS),
    ]
    parts = [HEAD.rstrip(), *(f"## {name}\n\n{bodies[name]}" for name in names)]
    return "\n\n".join(parts) + "\n"


def machine() -> list[str]:
    """What the figures were taken on."""
    return [
        f"{dt.datetime.now(dt.UTC):%Y-%m-%d}",
        f"{os.cpu_count()} cores, {_memory_gb():.0f} GB of memory, {platform.system()} {platform.release().partition('-')[0]}",
        f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()} (apsw {apsw.apsw_version()})",
    ]


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def _bodies(page: str) -> dict[str, str]:
    parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    return {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}
