"""A finding as lines of text, the same in ``check`` and in the plan of ``repair``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from recollect.cli.terminal import output
from recollect.cli.terminal.text import counted, visible, wrapped
from recollect.model.findings import Finding, Severity

_STYLE = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "dim"}
_INDENT = " " * 10


def finding_lines(finding: Finding) -> Iterator[str]:
    """Severity, code, location and message, in 80 columns."""
    severity = finding.severity.value
    agent = f"agent {visible(finding.agent)} " if finding.agent else ""
    place = (
        f"{place_of(finding.line, finding.offset)}: " if finding.line and finding.offset is not None else ""
    )
    text = f"{finding.code}: {agent}{place}{visible(finding.what)}"
    first, *more = wrapped(text, f"  {severity:<7} ", _INDENT)
    yield first.replace(severity, output.styled(severity, _STYLE[finding.severity]), 1)
    yield from more


def fix_lines(finding: Finding) -> Iterator[str]:
    """The recommended fix and what a repair would do; nothing if there is nothing to do."""
    if finding.fix.startswith("nothing to do"):
        return
    # Do not wrap a command line: it is there to be copied.
    yield output.styled(f"{_INDENT}-> {visible(finding.fix)}", "dim")
    if finding.repair is not None:
        for line in wrapped(f"to {finding.repair}", f"{_INDENT}   ", f"{_INDENT}   "):
            yield output.styled(line, "dim")


def place_of(line: int, offset: int) -> str:
    return f"line {line:,}, byte {offset:,}"


def codes_of(findings: Sequence[Finding]) -> str:
    """How many findings of each code, most frequent first."""
    counts = Counter(one.code for one in findings)
    codes = ", ".join(f"{count:,} {code}" for code, count in counts.most_common())
    return f"{counted(len(findings), 'finding')}: {codes}"
