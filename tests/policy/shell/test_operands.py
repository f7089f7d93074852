from __future__ import annotations

import pytest

from recollect.policy.commands import file_operands
from recollect.policy.shell import analyse

USES: dict[str, set[tuple[str, str]]] = {
    "cat a b": {("read", "a"), ("read", "b")},
    "head -n 5 a": {("read", "a")},
    "tail -5 a": {("read", "a")},
    "grep pattern a": {("read", "a")},
    "grep -e pattern a": {("read", "a")},
    "grep -f p a": {("read", "p"), ("read", "a")},
    "sed -n 1p a": {("read", "a")},
    "sed -i s/x/y/ a": {("read", "a"), ("write", "a")},
    "cp a b": {("read", "a"), ("write", "b")},
    "mv a b": {("read", "a"), ("write", "a"), ("write", "b")},
    "rm -rf a b": {("write", "a"), ("write", "b")},
    "touch a": {("write", "a")},
    "tee a": {("write", "a")},
    "dd if=a of=b": {("read", "a"), ("write", "b")},
    "ln -s a b": {("read", "a"), ("write", "b")},
    "sort -o a b": {("write", "a"), ("read", "b")},
    "sort --output=a b": {("write", "a"), ("read", "b")},
    "diff a b": {("read", "a"), ("read", "b")},
    "echo x > a": {("write", "a")},
    "x < a 2>> b": {("read", "a"), ("write", "b")},
    "x <> a": {("read", "a"), ("write", "a")},
    "cat $HOME/.ssh/id": {("read", "~/.ssh/id")},
    "D=/etc; cat $D/passwd": {("read", "/etc/passwd")},
    "/bin/cat a": {("read", "a")},
    "cat -- -a": {("read", "-a")},
    "node a": set(),
    "ls a": set(),
}


@pytest.mark.parametrize("text", USES)
def test_files_named_by_known_programs(text: str) -> None:
    """R14: what a file program reads or writes, by operand, option, redirect or constant."""
    uses = {use for command in analyse(text).commands for use in file_operands(command)}
    assert uses == USES[text]
