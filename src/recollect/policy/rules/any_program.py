"""Programs that run other programs: a prefix rule for one of them allows more than its name says.

For each, how it does so and a rule that is narrower. Data for the warnings about rules; the first group is also what
a rule does not cover in plan mode.
"""

from __future__ import annotations

from recollect.policy.commands.options import names

INTERPRETERS = names(
    "bash sh zsh dash ksh fish python python2 python3 node deno bun ruby perl php lua Rscript osascript"
    " pwsh ts-node tsx eval exec env xargs sudo doas ssh npm npx pnpm yarn bunx uv uvx pipx make just go"
    " cargo java"
)
"""Programs that exist to run a text, a file or another program."""

_SCRIPT = "the text or file behind it is a program of its own"
_PROJECT = "it runs what the project's own files say"

HOW_IT_RUNS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(names("bash sh zsh dash ksh fish eval exec"), (_SCRIPT, "Bash(./script.sh)")),
    **dict.fromkeys(
        names("python python3 node deno bun ruby perl php lua"),
        (_SCRIPT, "Bash({} tool.py)"),
    ),
    **dict.fromkeys(
        names("sudo doas env"), ("the words behind it are another command", "Bash({} one-command)")
    ),
    **dict.fromkeys(names("npm pnpm yarn"), (_PROJECT, "Bash({} run test)")),
    **dict.fromkeys(
        names("npx pnpx bunx uvx pipx"), ("it fetches and runs any package", "Bash({} one-package)")
    ),
    **dict.fromkeys(names("make just cargo go gradle mvn"), (_PROJECT, "Bash({} test)")),
    "xargs": ("the words behind it are another command", "Bash(xargs wc:*)"),
    "find": ("-exec runs any program and -delete removes", "Bash(find . -name:*)"),
    "fd": ("-x and -X run any program", "Bash(fd -e:*)"),
    "rg": ("--pre runs any program on every file", "Bash(rg -n:*)"),
    "awk": ("system() in its text runs any program", "Bash(awk '{print $1}':*)"),
    "sed": ("its commands e and w run programs and write files", "Bash(sed -n:*)"),
    "tar": ("--to-command and --checkpoint-action run any program", "Bash(tar tf:*)"),
    "zip": ("-TT runs any program", "Bash(zip -r out.zip:*)"),
    "git": ("-c, aliases, hooks and --upload-pack run any program", "Bash(git status:*)"),
    "ssh": ("-o ProxyCommand runs any program here, and the host runs the rest", "Bash(ssh host uptime)"),
    "scp": ("-S and -o ProxyCommand run any program", "Bash(scp file host:file)"),
    "rsync": ("-e runs any program", "Bash(rsync -a src/ dst/)"),
    "docker": ("run and exec start any program, with any directory of this machine", "Bash(docker ps:*)"),
    "kubectl": ("exec starts any program in the cluster", "Bash(kubectl get:*)"),
    "sort": ("--compress-program runs any program and -o writes", "Bash(sort -u:*)"),
    "man": ("-P runs any program", "Bash(man ls)"),
    "less": ("a key or LESSOPEN runs any program", "Bash(cat:*)"),
    "vim": ("! runs any program", "Bash(cat:*)"),
    "curl": ("-o and -K write and read any file, and it reaches any host", "WebFetch(domain:HOST)"),
    "wget": ("--use-askpass runs any program, -O writes any file", "WebFetch(domain:HOST)"),
    "gdb": ("its command shell runs any program", "Bash(gdb --version)"),
    "strace": ("the words behind it are another command", "Bash(strace --version)"),
    "tcpdump": ("-z runs any program", "Bash(tcpdump -D)"),
}
"""The program: how it runs others, and a narrower rule (``{}`` is the program)."""


def more_than_it_seems(program: str) -> tuple[str, str] | None:
    """How the program runs others and a narrower rule, or None for a program that does not."""
    found = HOW_IT_RUNS.get(program)
    return (found[0], found[1].replace("{}", program)) if found else None
