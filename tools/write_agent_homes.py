"""Let real clients of other agents, old and new, write homes against stubs that keep what they billed.

python -m tools.write_agent_homes CLIENTS DIR [NAME[:SCENARIO]...]

CLIENTS is what ``tools/fetch_agents.sh CLIENTS every`` filled; DIR gets ``codex/<version>/<scenario>/`` and
``<agent>-<version>/`` with the homes and the bills, for ``python -m bench.bills --homes DIR``. NAME (codex-0.36.0) takes only
these clients, and SCENARIO only one of theirs, beside the samples; those that are whole in DIR are not run again. Every client runs in a network namespace that has nothing
but its loopback, with an empty environment, a home of its own and a dummy key. All of them take about an hour.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.needs import TRANSCRIPTS

ORACLE = TRANSCRIPTS / "dialects" / "oracle"
# Clients that the other tests use too are fetched without a version in their name.
NEWEST = {"codex": "0.166.0", "opencode": "1.18.33", "gemini": "0.61.0", "qwen": "0.24.4"}
PROGRAMS = {
    # Some packages hold the programs of every platform.
    "codex": ("**/codex-x86_64-unknown-linux-musl", "**/x86_64-unknown-linux-musl/**/codex"),
    "opencode": ("bin/opencode",),
    "gemini": ("bundle/gemini.js", "node_modules/@google/gemini-cli/dist/index.js"),
    "qwen": ("cli.js",),
}
GENERATORS = {"opencode": "oc_generate.py", "gemini": "gem_generate.py", "qwen": "qw_generate.py"}
CLOSED = ("unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up; exec "$@"', "sh")


def main(arguments: list[str]) -> int:
    """Exit status 1 where a client did not come to its end."""
    if len(arguments) < 2 or arguments[0].startswith("-"):
        print(__doc__)
        return 2
    clients, target = (Path(name).absolute() for name in arguments[:2])
    wanted = {name: only for name, _, only in (word.partition(":") for word in arguments[2:])}
    failed = 0
    for name, program in _clients(clients):
        only = wanted.get(name, "")
        done = _mark(target, f"{name}-{only}" if only else name)
        if (wanted and name not in wanted) or done.exists():
            continue
        print(f"{name} {only}: {program.name}", flush=True)
        done.parent.mkdir(parents=True, exist_ok=True)
        is_whole = all(
            subprocess.run(
                [*CLOSED, sys.executable, "-B", *command], env=_environment(), check=False
            ).returncode
            == 0
            for command in _commands(name, only, program, done.parent)
        )
        if is_whole:
            done.touch()
        failed += not is_whole
    return 1 if failed else 0


def _clients(directory: Path) -> Iterator[tuple[str, Path]]:
    for place in sorted(directory.iterdir()):
        agent, _, version = place.name.partition("-")
        found = [
            path for pattern in PROGRAMS.get(agent, ()) for path in place.glob(pattern) if path.is_file()
        ]
        if found:
            yield f"{agent}-{version or NEWEST[agent]}", found[0]


def _mark(target: Path, name: str) -> Path:
    agent, _, version = name.partition("-")
    return (target / "codex" / version if agent == "codex" else target / name) / ".complete"


def _commands(name: str, only: str, program: Path, root: Path) -> Iterator[list[str]]:
    agent, _, version = name.partition("-")
    one = [f"--only={only}"] if only else []
    if agent == "codex":
        program.chmod(0o755)
        base = [f"--codex={program}"]
        yield [str(ORACLE / "codex/generate.py"), *base, f"--root={root}", *one]
        if shutil.which("tmux") and not only:
            yield [str(ORACLE / "codex/tui.py"), *base, f"--root={root / 'tui'}"]
        return
    options = {"client": program, "version": version, "home": root, "project": root / "work"}
    words = [f"--{key}={value}" for key, value in options.items()]
    generator = ORACLE / "opencode-gemini-qwen" / GENERATORS[agent]
    yield [str(generator), *words, f"--truth={root / 'truth.json'}", *one]


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": os.devnull, "LANG": "C.UTF-8"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
