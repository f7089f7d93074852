from __future__ import annotations

import pytest

from recollect.policy.commands import read_only
from recollect.policy.shell import analyse


def _read_only(text: str) -> bool:
    return all(read_only(command) for command in analyse(text).commands)


HARMLESS = [
    "ls", "ls -la src", "ls *.py", "cat a b", "cat $X", "echo a", "echo $X *", "pwd", "head -5 a", "head -n5 a", "tail -n 3 a",
    "grep -rn a src", "grep -e a --include='*.py' -r .", "grep a *", "find . -name '*.py' -type f", "find src -maxdepth 2",
    "find . \\( -name a -o -name b \\) -print", "wc -l a", "which ls", "diff -u a b", "stat a", "du -sh .",
    "git status", "git log --oneline -5", "git log -n 3 --format=%h", "git diff HEAD~1 -- src", "git show HEAD",
    "git branch", "git branch -a", "git branch --list 'a*'", "git remote -v", "git stash list", "git rev-parse HEAD",
    "git config --get user.name", "git blame -L 1,5 a", "git ls-files", "git tag", "sed -n 5p a",
    "sed -n '5,10p' a", "sed -nE '1p;3,4p' a", "sort -u a", "sort -k 2 -t x a", "sort -rn", "uniq -c", "cut -d: -f1 a",
    "rg -n a src", "jq .a b", "python --version", "date +%s", "test -f a", "[ -f a ]", "printf '%s' a",
    "ls 2>/dev/null", "ls > /dev/null 2>&1", "cat < a", "tr a b", "true", "sleep 1", "type ls",
]  # fmt: skip
HARMFUL = [
    "rm a", "ls > a", "ls >> a", "A=b ls", "cat a > $X", "cat < /dev/tcp/h/80", "ls --frob", "find . -delete", "find . -exec a ;",
    "find . -fprint a", "find *", "find $X", "sort -o a b", "sort *", "sort $X", "sort --compress-program=a", "uniq a b",
    "git diff --output=a", "git -c a=b log", "git --exec-path=. log", "git branch a", "git branch -D a", "git tag v1",
    "git stash", "git diff *", "git diff $X", "git log --outp=a", "git grep -O a", "git -C a status", "git config a b",
    "git push", "git", "sed s/a/b/ f", "sed -n 's/a/b/w x' f", "sed -i 1p f", "sed -n 1p *", "awk 1", "rg --pre sh a",
    "tree -o a", "xxd a b", "date -s 1", "date 0101", "hostname a", "python -c 1", "python --version a", "env", "command ls",
    "/bin/ls", "./ls", "curl h", "ping h", "xargs ls", "timeout 5 ls", "jq env", "diff -l a b", "tee a", "ls & evil",
    # Asked about by the client, so by us.
    "git diff -- *", "git --no-pager log", "sed -n -e 1p a", "sed -n '$p' a", "sort -k2 -t, a", "command -v ls", "xxd a",
    ": x", "uniq a", "git diff -w", "git log -n5", "git log --format=1", "file *", "ps auxe", "cksum a", "git config -l",
]  # fmt: skip


@pytest.mark.parametrize("text", HARMLESS)
def test_looking_is_recognised(text: str) -> None:
    """R10: known programs with known options run without asking."""
    analysis = analyse(text)
    assert (analysis.unanalysable, _read_only(text)) == ((), True)


@pytest.mark.parametrize("text", HARMFUL)
def test_everything_else_is_not_read_only(text: str) -> None:
    """R10, B03 to B13: one unknown option, write or word is enough."""
    assert _read_only(text) is False


SPELLINGS = {
    False: [
        ("sort -o x f", "sort -ox f", "sort --output=x f", "sort --output x f", "sort -no x f", "sort f -o x", "sort '-o' x f"),
        ("rg --pre=sh a", "rg --pre sh a", "rg '--pre' sh a", "rg a --pre=sh"),
        ("git grep -O a", "git grep -Oless a", "git grep -nO a", "git grep --open-files-in-pager a"),
    ],
    True: [
        ("head -n 5 f", "head -n5 f", "head -5 f", "head --lines=5 f", "head --lines 5 f", "head -qn5 f", "head -n 5 -- f"),
        ("sort -k 2 f", "sort --key=2 f", "sort --key 2 f", "sort -rk 2 f", "sort f -k 2"),
        ("grep -A 2 a f", "grep -A2 a f", "grep --after-context=2 a f", "grep -nA2 a f", "grep a f -A2"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("verdict", "group"), [(v, group) for v, groups in SPELLINGS.items() for group in groups]
)
def test_all_spellings_of_an_option_get_one_verdict(verdict: bool, group: tuple[str, ...]) -> None:
    """B13: glued, apart, clustered, long, quoted or behind the operands."""
    assert {text: _read_only(text) for text in group} == dict.fromkeys(group, verdict)
