"""A server that cannot read the past says so: what is closed and what to do, as an error of the tool."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.test_hardship import AS_ANYONE, needs_setpriv
from tests.share.mcp.past import CART, DOCS, past

pytestmark = [needs_setpriv]


def asked(home: Path, *questions: str) -> list[tuple[str, bool]]:
    """The answers of one server's recall, from a process for which permissions count. The first waits for the index."""
    calls = [{"name": "recall", "arguments": {"question": one, "scope": "all"}} for one in questions]
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}},
        *({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call} for call in calls),
    ]
    done = subprocess.run(
        [*AS_ANYONE, sys.executable, "-m", "recollect", "--home", str(home), "--data", str(home.parent / "data"), "mcp", "serve"],
        input="".join(json.dumps(one) + "\n" for one in messages),
        env={"HOME": str(home.parent), "PATH": os.defpath, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        capture_output=True,
        text=True,
        check=True,
    )  # fmt: skip
    results = [json.loads(line)["result"] for line in done.stdout.splitlines()[1:]]
    return [(one["content"][0]["text"], one["isError"]) for one in results]


@pytest.mark.parametrize("is_named", [True, False], ids=["--home", "$CLAUDE_CONFIG_DIR"])
def test_a_home_in_a_closed_directory_is_not_said_to_be_missing(tmp_path: Path, is_named: bool) -> None:
    home = tmp_path / "closed" / "home"
    past(home)
    home.parent.chmod(0)
    variable = {} if is_named else {"CLAUDE_CONFIG_DIR": str(home)}
    try:
        done = subprocess.run(
            [*AS_ANYONE, sys.executable, "-m", "recollect", *(["--home", str(home)] if is_named else []), "mcp", "serve"],
            env={"HOME": str(tmp_path), "PATH": os.defpath, **variable},
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
    finally:
        home.parent.chmod(0o700)
    assert (74, True) == (done.returncode, f"recollect: read {home}: Permission denied\n" in done.stderr)


@pytest.mark.parametrize("name", ["", "projects"], ids=["the home", "its projects"])
def test_a_closed_home_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    """Not an answer that there is nothing."""
    home = tmp_path / "home"
    past(home)
    (home / name).chmod(0)
    try:
        [(text, is_error)] = asked(home, "rounding of the cart")
    finally:
        (home / name).chmod(0o700)
    assert (
        True,
        f"read {home / name}: Permission denied. give this user the right to read it, then ask again",
    ) == (
        is_error,
        text,
    )


@pytest.mark.parametrize(
    "of",
    [
        lambda home: home / "projects" / "-srv-shop",
        lambda home: home / "projects" / "-srv-shop" / f"{CART}.jsonl",
    ],
    ids=["a project", "a log"],
)
def test_what_a_closed_part_hides_is_said_beside_the_answer(
    tmp_path: Path, of: Callable[[Path], Path]
) -> None:
    """And is an error where nothing else answers. Names below a home are written by others: they are counted."""
    home = tmp_path / "home"
    past(home)
    closed = of(home)
    mode = closed.stat().st_mode
    closed.chmod(0)
    try:
        [(answer, is_error), (nothing, is_nothing)] = asked(home, "describe the cart", "floats")
    finally:
        closed.chmod(mode)
    assert (False, True) == (is_error, DOCS in answer)
    assert f"Sessions may be missing: read one file or directory below {home}: refused." in answer
    assert "`recollect doctor` names each" in answer
    assert "-srv-shop" not in answer.split("\n\n")[0] + nothing
    assert (True, True) == (
        is_nothing,
        nothing.startswith(f"read one file or directory below {home}: refused."),
    )


def test_a_place_without_room_for_the_index_is_named(tmp_path: Path) -> None:
    """Waiting does not help there, so the answer does not ask for it."""
    past(tmp_path / "home")
    data = tmp_path / "data"
    data.mkdir(0o500)
    try:
        [(text, is_error)] = asked(tmp_path / "home", "rounding")
    finally:
        data.chmod(0o700)
    assert (True, True) == (is_error, text.startswith(f"no index: {data}"))
    assert text.endswith("give this user the right to write there, or start serve with --data DIR")
