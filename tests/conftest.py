"""Every test gets a home of its own; none may see this machine's."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings

from tests.made_corpora import RUN_PLACE, make_log_homes
from tests.memory import TORTURE, directory, memory
from tests.needs import MADE_AND_REAL, NEEDS, TRANSCRIPTS, mark, missing

# Where the environment forbids to keep compiled modules, each of the hundreds of programs that tests start would compile
# all of recollect: ten times the start. They are kept beside the source, and git ignores them.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# One profile for all machines: example counts, never wall time, decide when a property test ends. They are others in
# each run, and ten times as many in `make torture`; where a run decides about a change (.ci/run), they are always the
# same, and so is the order of tests, so that it speaks of that change alone.
SAME_EXAMPLES = "RECOLLECT_SAME_EXAMPLES" in os.environ
settings.register_profile(
    "recollect",
    deadline=None,
    derandomize=SAME_EXAMPLES,
    max_examples=int(os.environ.get("RECOLLECT_EXAMPLES", "500" if TORTURE else "15")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("recollect")

# Rooms whose tests write into memory. Those that judge paths or start sandboxes write to the disk, because there /dev is
# a place like no other.
MEMORY_ROOMS = tuple(
    f"tests/{room}/"
    for room in (
        "agents",
        "ask",
        "change",
        "cli",
        "crash",
        "index",
        "server",
        "share",
        "store",
        "surfaces",
        "web",
    )
)
DISK_ROOMS = ("tests/cli/test_flags.py", "tests/cli/test_plugin.py", "tests/change/test_rewind.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also what only `make test-all` runs")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if SAME_EXAMPLES and getattr(config.option, "randomly_seed", None) == "default":
        config.option.randomly_seed = 1
    for need in NEEDS:
        config.addinivalue_line("markers", f"{need.marker}: {need.about}")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Leave out the tests whose need is not there; a run of many processes counts them in each, always the same."""
    for item in items:
        mark(item)
    yield
    lacks, chosen, out = missing(is_all=config.getoption("all")), [], list[pytest.Item]()
    left_out = Counter[str]()
    for item in items:
        lack = next((need for need in lacks if item.get_closest_marker(need)), None)
        if lack is None:
            chosen.append(item)
        else:
            out.append(item)
            left_out[lack] += 1
    items[:] = chosen
    config.hook.pytest_deselected(items=out)
    config.stash[LEFT_OUT] = left_out
    if hasattr(config, "workeroutput"):
        config.workeroutput["left_out"] = dict(left_out)


LEFT_OUT = pytest.StashKey[Counter[str]]()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A process of xdist says what it left out; all of them say the same."""
    node.config.stash[LEFT_OUT] = Counter(getattr(node, "workeroutput", {}).get("left_out", {}))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    lacks = missing(is_all=config.getoption("all"))
    for marker, count in sorted(config.stash.get(LEFT_OUT, Counter()).items()):
        terminalreporter.write_line(f"left out: {count} tests marked {marker}: {lacks[marker]}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """More processes than cores: about half of the time tests wait for a server, a browser, a client or a clock."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + max(2, cores // 2)


# Read before any test changes them: what no test may touch.
REAL_HOMES = tuple(
    str(Path(home) / name)
    for home in {
        os.environ.get("HOME") or "/nonexistent",
        os.path.expanduser(f"~{os.environ.get('USER', '')}"),
    }
    for name in (".claude", ".claude.json", ".config/claude", ".local/share/recollect", ".cache/recollect")
)


def _guard(event: str, arguments: tuple[object, ...]) -> None:
    """An audit hook: whoever opens, lists or makes anything in a real home fails at once."""
    if event in ("open", "os.scandir", "os.listdir", "os.mkdir", "os.rename", "os.remove") and arguments:
        path = arguments[0]
        if isinstance(path, str | bytes | os.PathLike) and _is_real(os.fsdecode(path)):
            raise PermissionError(errno.EACCES, "a test touched the real home", os.fsdecode(path))


_INSIDE_REAL_HOMES = tuple(home + os.sep for home in REAL_HOMES)


def _is_real(path: str) -> bool:
    """By whole names: the caches that tests fetch programs into stand beside ours, and begin like it."""
    return path in REAL_HOMES or path.startswith(_INSIDE_REAL_HOMES)


sys.addaudithook(_guard)

# A shell that starts us in the background leaves Ctrl-C ignored, and every program we start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test speaks TLS. To read all authorities of this machine takes every HTTP client 30 ms; this file names one.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).resolve().parent / "data" / "no_authority.pem")

_numbers = itertools.count()


class Places(NamedTuple):
    """Where tests get their directories: on the disk, and in memory where there is room."""

    disk: Path
    memory: Path | None

    def take(self, test: pytest.Item, name: str) -> Path:
        """A new directory for a test."""
        root = self.disk
        if self.memory and test.nodeid.startswith(MEMORY_ROOMS) and not test.nodeid.startswith(DISK_ROOMS):
            root = self.memory
        place = root / f"{name}{next(_numbers)}"
        place.mkdir(mode=0o700)
        if root is self.memory:
            test.stash.setdefault(_TAKEN, []).append((place, self.disk / place.name))
        return place


_TAKEN, _FAILED = pytest.StashKey[list[tuple[Path, Path]]](), pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """What a test had in memory goes when all it changed is undone; of one that failed there is a copy on the disk."""
    try:
        return (yield)
    finally:
        for place, kept in item.stash.get(_TAKEN, ()):
            if item.stash.get(_FAILED, False):
                with contextlib.suppress(OSError):  # what cannot be read, or is no file
                    shutil.copytree(place, kept, symlinks=True)
            shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Places:
    """Numbered by a counter, and apart: to find a free number pytest lists every directory of the run, which took more
    time than most tests do.
    """
    base = tmp_path_factory.getbasetemp()
    # Processes of xdist have a directory each, below that of the run.
    os.environ[RUN_PLACE] = str(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)
    disk = base / "t"
    disk.mkdir()
    if memory() is None:
        return Places(disk, None)
    quick = directory("t")
    # Not at the end of this fixture: that comes before the last test, if it failed, is copied to the disk.
    pytestconfig.add_cleanup(lambda: shutil.rmtree(quick, ignore_errors=True))
    return Places(disk, quick)


@pytest.fixture
def tmp_path(places: Places, request: pytest.FixtureRequest) -> Path:
    """As pytest's own: a new directory for each test; one on the disk is kept for three runs."""
    return places.take(request.node, re.sub(r"[^a-zA-Z0-9_]", "_", request.node.name)[:20])


@pytest.fixture(autouse=True)
def own_home(places: Places, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """HOME, the XDG directories and CLAUDE_CONFIG_DIR point into a fresh directory, for every test."""
    home = places.take(request.node, "home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "xdg-config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "xdg-data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "xdg-cache"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / ".claude"))
    for name in ("RECOLLECT_DATA", "NO_COLOR", "FORCE_COLOR", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture(scope="session")
def transcripts() -> Path:
    """Real transcripts; see ``needs.py``."""
    return TRANSCRIPTS


@pytest.fixture(scope="session", params=MADE_AND_REAL)
def log_homes(request: pytest.FixtureRequest, places: Places) -> Path:
    """Logs of Claude in the order of ``transcripts``: of our own making, and real ones where they are at hand."""
    return TRANSCRIPTS if request.param == "real" else make_log_homes(places.disk / "log-homes")
