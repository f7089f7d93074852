"""Every model call of real clients' homes, counted by recollect and by ccusage, beside what their service billed.

python -m bench.bills [--homes DIR] [--transcripts DIR] [--write]

The homes were written by real clients (Codex, OpenCode, Gemini, Qwen) against stubs of their services, which kept what they
billed. Without --homes these are the samples below RECOLLECT_TRANSCRIPTS; ``tools/write_agent_homes.py DIR`` lets the clients of all
versions write them again. *Countable* are the calls that left a usage record, as the programs beside the stubs find them;
the rest (titles, cut streams, remote compaction) stands in no file. A call is right if thread (Codex), model and every
count are those of one bill. ccusage is compared by its totals of a home. --write puts the table into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import recollect
from bench.document import PAGE
from bench.measured import Failed
from bench.peers import find_peers, plain_environment
from tests.agents.samples import Call, Sample, codex_rooms, codex_samples, counted, homes_of
from tests.needs import TRANSCRIPTS

# Prompt tokens of Gemini's own tools, which its stub bills beside the input.
TOOL_TOKENS = 17
_PLACE = {
    "codex": "CODEX_HOME",
    "opencode": "OPENCODE_DATA_DIR",
    "gemini": "GEMINI_DATA_DIR",
    "qwen": "QWEN_DATA_DIR",
}
HEAD, TAIL = "## Calls of other agents\n", "<!-- end of the calls -->\n"

Sums = tuple[int, int, int, int]  # uncached input, cache read, cache write, output


class Counted(NamedTuple):
    """One home."""

    version: str
    billed: int
    countable: int
    right: int
    model_wrong: int
    thread_wrong: int
    cut: int  # counted with the counts that a cut stream had so far
    not_billed: int
    is_exact: bool  # all that is countable, and nothing else
    truth: Sums
    peer: Sums | None


def main() -> int:
    """Exit status 1 where a call is missing or wrong."""
    options = _options()
    ccusage = find_peers().ccusage
    oracle = options.transcripts / "dialects" / "oracle"
    sys.path[:0] = [str(oracle / "codex"), str(oracle / "opencode-gemini-qwen")]
    rows = []
    for agent in _PLACE:
        homes = [count_home(sample, oracle, ccusage) for sample in _samples(agent, options)]
        if homes:
            rows += _rows(agent, homes)
    text = "\n".join(rows)
    print(text)
    if options.write:
        _write(text)
    return 1 if "MISSING" in text else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.bills",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--homes", type=Path, metavar="DIR", help="homes that clients wrote")
    parser.add_argument(
        "--transcripts", type=Path, metavar="DIR", default=TRANSCRIPTS, help="samples and stubs"
    )
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    return parser.parse_args()


def _samples(agent: str, options: argparse.Namespace) -> Iterator[Sample]:
    """The homes that were written; those of the samples for versions that no client wrote."""
    written: list[Sample] = []
    if options.homes:
        written += (
            codex_rooms(options.homes / "codex") if agent == "codex" else homes_of(options.homes, agent)
        )
    yield from written
    names = {_version(sample) for sample in written}
    others = homes_of_agent(options.transcripts, agent)
    yield from (sample for sample in others if _version(sample) not in names)


def _version(sample: Sample) -> str:
    return sample.name.split("/")[0].removeprefix(f"{sample.agent}-")


def homes_of_agent(transcripts: Path, agent: str) -> Iterator[Sample]:
    """The homes of an agent among the samples."""
    if agent == "codex":
        yield from codex_samples(transcripts)
    else:
        yield from homes_of(transcripts / "dialects" / "samples", agent)


def count_home(sample: Sample, oracle: Path, ccusage: Path | None) -> Counted:
    """The calls of one home beside their bills; ``oracle`` has the programs that know the formats."""
    with tempfile.TemporaryDirectory() as data:
        found = counted(recollect.Home(sample.home, data=data), by_root=sample.agent == "qwen")
    if sample.agent != "codex":  # the stubs of the others do not know the thread of every call
        found, billed, cut = (_anywhere(calls) for calls in (found, sample.billed, sample.cut))
    else:
        billed, cut = sample.billed, sample.cut
    right = found & billed
    rest, left = found - right, billed - right
    wrong = {"model": 0, "thread": 0, "tool": 0, "cut": 0}
    for call in rest.elements():
        for why, other in _almost(call, left, cut):
            wrong[why] += 1
            left[other] -= 1
            break
    countable, truth = _countable(sample, found, oracle)
    is_right = right.total() + wrong["tool"]
    return Counted(
        _version(sample),
        sample.billed.total(),
        countable,
        is_right,
        wrong["model"],
        wrong["thread"],
        wrong["cut"],
        rest.total() - sum(wrong.values()),
        truth == _sums(found) and not wrong["model"] + wrong["thread"],
        truth,
        _of_ccusage(ccusage, sample) if ccusage else None,
    )


def _anywhere(calls: Counter[Call]) -> Counter[Call]:
    found = Counter[Call]()
    for call, count in calls.items():
        found[call._replace(thread="")] += count
    return found


def _almost(call: Call, left: Counter[Call], cut: Counter[Call]) -> Iterator[tuple[str, Call]]:
    """Which bill a call may be that is none as it stands, and what is not the same."""
    for other, count in left.items():
        if count <= 0:
            continue
        if call._replace(model=other.model) == other:
            yield ("model" if call.model else "tool"), other  # a reverted call of OpenCode names no model
        elif call._replace(thread=other.thread) == other:
            yield "thread", other
        elif call._replace(input=call.input - TOOL_TOKENS) == other:
            yield "tool", other
        elif other in cut and call[1:5] == other[1:5] and call.output < other.output:
            yield "cut", other


def _countable(sample: Sample, found: Counter[Call], oracle: Path) -> tuple[int, Sums]:
    """How many calls left a record and what they used, by the program that knows the format beside the stub."""
    if sample.agent == "codex":
        calls, _ = importlib.import_module("account").account(sample.home)
        rows = [used for _, _, _, used in calls.values()]
        return len(rows), (
            sum(row[0] - row[1] - row[2] for row in rows),
            sum(row[1] for row in rows),
            sum(row[2] for row in rows),
            sum(row[3] for row in rows),
        )
    if sample.agent == "qwen":  # every call that was not cut
        whole = sample.billed - sample.cut
        return whole.total(), _sums(whole)
    calls, used = _of_opencode(sample) if sample.agent == "opencode" else _of_gemini(sample, oracle)
    tools = _tool_tokens(sample, found)
    output = used["output"] + used["reasoning"]
    return calls, (used["input"] + tools, used["cache_read"], used["cache_write"], output)


def _of_opencode(sample: Sample) -> tuple[int, dict[str, int]]:
    """Calls and tokens. A fork's copy has time, model and counts of the original; the program beside the stub takes one that was
    made within a second for a call of its own, which the stub did not bill.
    """
    program = importlib.import_module("oc_usage")
    records = program.usage(*program.load(sample.home))
    kept = [one for one in records if not one.get("dropped") and any(one["usage"].values())]
    once = {one.get("fact", one["key"]): one for one in kept}
    return len(once), program.total(list(once.values()))


def _of_gemini(sample: Sample, oracle: Path) -> tuple[int, dict[str, int]]:
    program = oracle / "opencode-gemini-qwen" / "gem_usage.py"
    told = _json([sys.executable, "-B", program, sample.home], {})
    return told["calls"], told["tokens"]


def _tool_tokens(sample: Sample, found: Counter[Call]) -> int:
    """Tokens of Gemini's tools: a class of its own in the records, input in the price."""
    if sample.agent != "gemini":
        return 0
    billed = _anywhere(sample.billed)
    return TOOL_TOKENS * sum(
        count
        for call, count in found.items()
        if call not in billed and call._replace(input=call.input - TOOL_TOKENS) in billed
    )


def _sums(calls: Counter[Call]) -> Sums:
    rows = list(calls.elements())
    return (
        sum(call.input for call in rows),
        sum(call.cache_read for call in rows),
        sum(call.cache_write for call in rows),
        sum(call.output for call in rows),
    )


def _of_ccusage(program: Path, sample: Sample) -> Sums:
    with tempfile.TemporaryDirectory() as nowhere:
        environment = {**plain_environment(Path(nowhere)), _PLACE[sample.agent]: str(sample.home)}
        told = _json([program, sample.agent, "session", "--json", "--offline"], environment)
    totals = told.get("totals") or {}
    cached = (totals.get("cacheReadTokens", 0), totals.get("cacheCreationTokens", 0))
    uncached, output = totals.get("inputTokens", 0), totals.get("outputTokens", 0)
    if sample.agent != "codex":  # reasoning stands in its total only
        output = totals.get("totalTokens", 0) - uncached - sum(cached)
    return uncached, *cached, output


def _json(command: list[str | Path], environment: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"{command[0]}: {done.stderr[-300:]}")
    told: dict[str, Any] = json.loads(done.stdout) if done.stdout.strip() else {}
    return told


def _rows(agent: str, homes: list[Counted]) -> list[str]:
    versions = sorted({home.version for home in homes}, key=lambda name: (_sorted_as(name), name))
    count = sum(re.fullmatch(r"[\d.]+", name) is not None for name in versions)  # others are mixed or special
    lines = [_row(f"{agent}, {count} version{'s' if count > 1 else ''}", homes)]
    if len(versions) > 1:
        lines += [_row(f"  {name}", [home for home in homes if home.version == name]) for name in versions]
    return ["", _row_of_heads(), *lines] if agent == "codex" else lines


def _sorted_as(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)) or (999,)


def _row_of_heads() -> str:
    heads = (
        "",
        "homes",
        "billed",
        "countable",
        "right",
        "not billed",
        "model or thread wrong",
        "ccusage exact",
    )
    return (
        f"{heads[0]:<22}"
        + " ".join(f"{head:>10}" for head in heads[1:])
        + "   its tokens / truth (worst home)"
    )


def _row(name: str, homes: list[Counted]) -> str:
    wrong = sum(home.model_wrong + home.thread_wrong for home in homes)
    right = sum(home.right for home in homes)
    cut = sum(home.cut for home in homes)
    countable = sum(home.countable for home in homes) - cut
    cells = [
        str(len(homes)),
        str(sum(home.billed for home in homes)),
        str(countable),
        str(right),
        str(sum(home.not_billed for home in homes)),
        f"{wrong:>21}",
        _peer(homes),
    ]
    is_whole = right == countable and all(home.is_exact for home in homes)
    mark = "" if is_whole else "  MISSING"
    return f"{name:<22}" + " ".join(f"{cell:>10}" for cell in cells) + mark


def _peer(homes: list[Counted]) -> str:
    pairs = [(home.truth, home.peer) for home in homes if home.peer is not None]
    if not pairs:
        return "not here"
    exact = sum(truth == peer for truth, peer in pairs)
    shares = [sum(peer) / sum(truth) for truth, peer in pairs if sum(truth)]
    worst = max(shares, key=lambda share: abs(share - 1), default=1.0)
    return f"{f'{exact} of {len(pairs)}':>13}   {sum(sum(p) for _, p in pairs):,} / {sum(sum(t) for t, _ in pairs):,} ({worst:.2f})"


def _write(text: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    about = "Written by `python -m bench.bills --homes DIR --write`, see `bench/bills.py` for what the columns mean."
    table = text.strip("\n")  # the row of heads begins with spaces
    section = f"{HEAD}\n{about}\n\n```\n{table}\n```\n{TAIL}"
    before, _, rest = page.partition(HEAD)
    after = rest.partition(TAIL)[2]
    PAGE.write_text(f"{before.rstrip()}\n\n{section}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
