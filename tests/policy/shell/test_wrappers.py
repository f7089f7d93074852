from __future__ import annotations

import pytest

from recollect.policy.analysis import Command, Word
from recollect.policy.commands import allow_view, deny_views
from recollect.policy.shell import analyse


def _one(text: str) -> Command:
    return analyse(text).commands[-1]


def _names(text: str) -> set[str]:
    return {view.words[0].text or view.words[0].raw for view in deny_views(_one(text)) if view.words}


STRIPPED = {
    "ls -la": "ls -la",
    "timeout 5 ls -la": "ls -la",
    "timeout -k 1 5 ls": "ls",
    "timeout --signal=KILL 5 ls": "ls",
    "time ls": "ls",
    "nice ls": "ls",
    "nice -n 5 ls": "ls",
    "nice -5 ls": "ls",
    "nohup ls": "ls",
    "stdbuf -oL ls": "ls",
    "nohup nice timeout 5 ls": "ls",
    "xargs ls": "ls …",
    "timeout --frob 5 ls": "timeout --frob 5 ls",
    "xargs -n 1 ls": "xargs -n 1 ls",
    "npx ls": "npx ls",
    "docker exec c ls": "docker exec c ls",
    "env ls": "env ls",
    "sudo ls": "sudo ls",
    "find . -name a": "find . -name a",
}


@pytest.mark.parametrize("text", STRIPPED)
def test_only_harmless_wrappers_are_stripped_for_allow_rules(text: str) -> None:
    """R8: five wrappers and a bare xargs; everything else is compared as it stands."""
    view = allow_view(_one(text))
    assert view is not None
    assert view.raw == STRIPPED[text] or " ".join(word.raw for word in view.words) == STRIPPED[text]


@pytest.mark.parametrize(
    "text",
    [
        "watch ls", "setsid ls", "ionice -c 3 ls", "flock f ls", "find . -exec ls {} +", "find . -delete",
        "timeout 5 watch ls", "/usr/bin/watch ls", "find . -fprint x", "find . $X", "nice " * 40 + "ls",
    ],
)  # fmt: skip
def test_some_commands_are_never_covered_by_a_prefix(text: str) -> None:
    """R9: no allow view at all."""
    assert allow_view(_one(text)) is None


def test_xargs_adds_words_that_nobody_knows() -> None:
    """The view of ``xargs rm x`` is not ``rm x``: an exact rule must not match it."""
    view = allow_view(_one("xargs rm x"))
    assert view is not None
    assert view.words[-1] == Word("…", None)
    assert view.argv is None


SEEN_THROUGH = [
    "env rm x", "env -i A=b rm x", "env -u A rm x", "env -S 'rm x'", "sudo -u root rm x", "sudo --frob rm x", "doas rm x",
    "su -c 'rm x'", "su bob -c 'rm x'", "watch -n 1 rm x", "ionice -c 3 rm x", "setsid rm x", "flock f rm x",
    "chroot / rm x", "unshare -r rm x", "ssh host rm x", "ssh host 'a; rm x'", "busybox rm x", "command rm x",
    "builtin rm x", "exec rm x", "xargs -n 1 rm", "parallel rm ::: a", "find . -exec rm {} +", "sh -c 'a; rm x'",
    "bash -lc 'rm x'", "bash -c \"sh -c 'rm x'\"", "/bin/rm x", "timeout 5 sudo env rm x", "eval 'rm x'", "X=rm; $X y",
    "X='rm -rf'; env $X y", "sudo " * 300 + "rm x", "sudo " * 300 + "sh -c 'rm x'",
]  # fmt: skip


@pytest.mark.parametrize("text", SEEN_THROUGH, ids=lambda text: text[-30:])
def test_denies_see_through_every_wrapper(text: str) -> None:
    """R9: rm is among the views, however it is wrapped."""
    assert "rm" in _names(text)


def test_a_view_keeps_its_arguments() -> None:
    """A deny with arguments can match inside a wrapper."""
    assert ("git", "push", "--force") in {
        view.argv for view in deny_views(_one("sudo -u a git push --force"))
    }


def test_understood_lines_give_no_false_beginnings() -> None:
    """Arguments of an understood command are not commands: no needless denies."""
    assert _names("sudo -u root ls rm") == {"sudo", "ls"}
    assert _names("command -v rm") == {"command"}
    assert _names("find . -name rm") == {"find"}
    assert _names("echo rm") == {"echo"}


def test_the_command_itself_comes_first() -> None:
    """Then what it would run."""
    command = _one("sudo ls")
    assert [view.raw for view in deny_views(command)] == ["sudo ls", "ls"]


@pytest.mark.parametrize("blank", ["' '", '"\t "', "'  '"])
def test_a_blank_word_where_a_program_is_expected_is_analysed(blank: str) -> None:
    assert {"git", "curl"} <= {
        command.words[0].text for command in analyse(f"git -c {blank} log; curl x").commands
    }
