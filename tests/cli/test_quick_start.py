"""Commands that are asked often load little, also where a line is new, and leave nothing broken for others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.talk import assistant, encoded, log_at, user

SESSION = "11111111-1111-4111-8111-111111111111"
# typing_extensions brings inspect and dis along; the codec makes decoders for all that a line may be.
HEAVY = (
    "typing_extensions",
    "inspect",
    "hashlib",
    "platform",
    "gettext",
    "locale",
    "textwrap",
    "ipaddress",
    "urllib.parse",
    "threading",
    "weakref",
    "ntpath",
    "msgspec.inspect",
    "msgspec._json_schema",
    "msgspec.msgpack",
    "msgspec.toml",
    "msgspec.yaml",
    "recollect.model.codec",
    "recollect.model.entry",
    "recollect.model.timespan",
    "recollect.model.cost.reconcile",
    "recollect.model.line_views.odd_lines",
    "recollect.services.search.text_scan_worker",
    "recollect.system.pool",
)


def printed(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


@pytest.fixture
def log() -> Path:
    """A session with a title, and an index that knows it."""
    title = {"type": "ai-title", "aiTitle": "The title", "sessionId": SESSION}
    lines = [user("u", None, 0, "some words"), assistant("a", "u", 1, "more words"), title]
    made = log_at(Path.home() / ".claude" / "projects" / "-srv" / f"{SESSION}.jsonl", lines)
    printed("from recollect.cli.main import main\nmain(['cost', '--json'])")
    return made


@pytest.mark.parametrize(
    "command", [["cost", "--json"], ["search", "words"], ["list"], ["list", "--json"], ["overview"]]
)
@pytest.mark.parametrize("is_new", [False, True])
def test_little_is_imported(command: list[str], is_new: bool, log: Path) -> None:
    """Nor where an answer has been added since, which is what every second question meets."""
    if is_new:
        with log.open("ab") as end:
            end.write(encoded([assistant("b", "a", 2, "new words")]))
    program = (
        "import sys\n"
        "from recollect.cli.main import main\n"
        f"main({command})\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )

    assert "[]" == printed(program)


@pytest.mark.parametrize("command", [["cost", "--json"], ["search", "words"], ["list"]])
def test_an_answer_needs_no_library_that_few_ask_for(command: list[str], log: Path) -> None:
    """Tables of characters, merging of several words: each takes longer to load than its part takes."""
    names = ("heapq", "math", "unicodedata")
    program = (
        "import sys\n"
        "from recollect.cli.main import main\n"
        f"main({command})\n"
        f"print([name for name in {names} if name in sys.modules])"
    )

    assert "[]" == printed(program)


@pytest.mark.parametrize("command", [["cost", "--json"], ["search", "words"]])
def test_a_new_line_is_indexed_without_what_a_list_asks(command: list[str], log: Path) -> None:
    with log.open("ab") as end:
        end.write(encoded([assistant("b", "a", 2, "new words")]))
    names = ("recollect.index.catalogue_updates", "recollect.index.catalogue")
    program = (
        "import sys\n"
        "from recollect.cli.main import main\n"
        f"main({command})\n"
        f"print([name in sys.modules for name in {names}])"
    )

    assert "[True, False]" == printed(program)


@pytest.mark.parametrize("command", [["cost", "--json"], ["search", "words"], ["list"]])
def test_a_walk_is_loaded_only_where_a_name_is_new(command: list[str], log: Path) -> None:
    """Directories that changed long ago tell that no log came or went, and the known ones need no walk."""
    for directory in (log.parent, log.parent.parent):
        os.utime(directory, (1_700_000_000, 1_700_000_000))
    program = (
        "import sys\n"
        "from recollect.cli.main import main\n"
        f"main({command})\n"
        "print('recollect.storage.home_walk' in sys.modules)"
    )
    printed(program)
    again = printed(program)
    log.with_name(f"{SESSION[:-1]}2.jsonl").write_bytes(encoded([user("n", None, 0, "new words")]))

    assert ("False", "True") == (again, printed(program))


def test_a_log_with_branches_is_counted_again_with_little(log: Path) -> None:
    """Its messages are counted from its links; the entries themselves are not read."""
    with log.open("ab") as end:
        end.write(encoded([assistant("b", "u", 2, "another branch"), assistant("c", "b", 3, "more of it")]))
    program = (
        "import sys\n"
        "from recollect.cli.main import main\n"
        "main(['list', '--json'])\n"
        f"print([name for name in {(*HEAVY, 'recollect.model.blocks')} if name in sys.modules],"
        " 'recollect.storage.logs.log_counts' in sys.modules)"
    )

    assert "[] True" == printed(program)


def test_a_stand_in_gives_way_to_the_module_itself() -> None:
    """Whoever asks later has all of it: schemas, translations, addresses, the platform."""
    program = (
        "from recollect.cli import quick_start\n"
        "import gettext, ipaddress, pathlib, platform, urllib.parse, uuid\n"
        "import msgspec\n"
        "schema = msgspec.json.schema(int)\n"
        "kinds = msgspec.inspect.type_info(int), gettext.NullTranslations, platform.machine(), uuid.uuid4()\n"
        "host = urllib.parse.urlsplit('http://[::1]/').hostname\n"
        "host += pathlib.Path('/a b').as_uri()\n"
        "import ntpath\n"
        "host += str(pathlib.PureWindowsPath('C:/a') / 'b') + ntpath.basename('c/d')\n"
        "packed = msgspec.msgpack.encode(1)\n"
        "print(schema, host, ipaddress.ip_address('::1'), len(kinds), packed)"
    )

    assert "{'type': 'integer'} ::1file:///a%20bC:\\a\\bd ::1 4 b'\\x01'" == printed(program)


def test_times_are_those_of_the_module_itself() -> None:
    """What stands for ``datetime`` has its classes: a time may come from either, and the rest of it is loaded when asked for."""
    program = (
        "from recollect.cli import quick_start\n"
        "import datetime as before\n"
        "import msgspec, pickle, sys\n"
        "at = msgspec.json.decode(b'\"2026-11-15T12:00:00Z\"', type=before.datetime)\n"
        "copied = pickle.loads(pickle.dumps(at))\n"
        "names = before.__name__, 'math' in sys.modules\n"
        "missing = hasattr(before, 'nothing')\n"
        "del sys.modules['datetime']\n"
        "import datetime as after\n"
        "same = [getattr(before, name) is getattr(after, name) for name in after.__all__ if name.islower()]\n"
        "print(at.isoformat(), copied == at, names, missing, all(same), before.sys is sys)"
    )

    assert "2026-11-15T12:00:00+00:00 True ('datetime', False) False True True" == printed(program)


def test_annotations_are_compiled_when_they_are_evaluated() -> None:
    """A named tuple and a struct know their types as ever; what cannot be read is an error then."""
    program = (
        "from __future__ import annotations\n"
        "from recollect.cli import quick_start\n"
        "import typing, msgspec\n"
        "class Pair(typing.NamedTuple):\n"
        "    name: str\n"
        "    sizes: list[int] | None\n"
        "class Both(msgspec.Struct):\n"
        "    pair: Pair\n"
        'pair = msgspec.json.decode(b\'{"pair": ["a", [1]]}\', type=Both).pair\n'
        "try:\n"
        '    msgspec.json.decode(b\'{"pair": ["a", ["1"]]}\', type=Both)\n'
        "except msgspec.ValidationError:\n"
        "    print(pair.sizes, typing.get_type_hints(Pair)['sizes'])"
    )

    assert "[1] list[int] | None" == printed(program)


def test_what_msgspec_goes_without_is_there_for_others() -> None:
    """Only its own import of typing_extensions is passed over."""
    program = (
        "from recollect.cli import quick_start\n"
        "import importlib.util\n"
        "if importlib.util.find_spec('typing_extensions'):\n"
        "    import typing_extensions\n"
        "print('fine')"
    )

    assert "fine" == printed(program)


def test_whoever_had_it_loaded_keeps_it() -> None:
    """A module that is there already is not taken away."""
    program = (
        "import sys, types\n"
        "mine = sys.modules['typing_extensions'] = types.ModuleType('typing_extensions')\n"
        "from recollect.cli import quick_start\n"
        "print(sys.modules['typing_extensions'] is mine)"
    )

    assert "True" == printed(program)
