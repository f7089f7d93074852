"""Which rule may be suggested for a command: a wildcard, only the exact words, or none.

Three lists decide; a command in none of them may only be allowed word for word. ``OPEN``: with any arguments,
the program starts nothing, fetches nothing and changes nothing but what its name says. ``PROJECT_CODE``: it
runs code of the project, such as tests and builds; suggested on request only. ``NEVER``: it destroys, sends,
grants or runs unknown code; no rule is suggested, not even for the exact words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Tier = Literal["open", "project code", "exact"]

OPEN = frozenset(
    {
        ("mkdir",),
        ("touch",),
        ("sleep",),
        ("git", "add"),
        ("git", "commit"),
        ("ruff", "check"),
        ("ruff", "format"),
        ("black",),
        ("gofmt",),
        ("rustfmt",),
        ("npm", "ls"),
        ("npm", "view"),
        ("pip", "list"),
        ("pip", "show"),
        ("cargo", "tree"),
        ("cargo", "fmt"),
        ("gh", "pr", "view"),
        ("gh", "pr", "list"),
        ("gh", "pr", "diff"),
        ("gh", "pr", "checks"),
        ("gh", "issue", "view"),
        ("gh", "issue", "list"),
        ("gh", "run", "view"),
        ("gh", "run", "list"),
    }
)
PROJECT_CODE = frozenset(
    {
        ("pytest",),
        ("python", "-m", "pytest"),
        ("python3", "-m", "pytest"),
        ("uv", "run", "pytest"),
        ("npm", "test"),
        ("npm", "run", "test"),
        ("npm", "run", "build"),
        ("npm", "run", "lint"),
        ("npm", "run", "typecheck"),
        ("pnpm", "test"),
        ("pnpm", "lint"),
        ("pnpm", "build"),
        ("pnpm", "typecheck"),
        ("yarn", "test"),
        ("yarn", "lint"),
        ("yarn", "build"),
        ("bun", "test"),
        ("cargo", "test"),
        ("cargo", "build"),
        ("cargo", "check"),
        ("cargo", "clippy"),
        ("go", "test"),
        ("go", "build"),
        ("go", "vet"),
        ("mypy",),
        ("tsc",),
        ("npx", "tsc"),
        ("npx", "vitest"),
        ("npx", "jest"),
        ("npx", "eslint"),
        ("eslint",),
        ("make", "test"),
        ("make", "check"),
        ("make", "lint"),
    }
)
NEVER: frozenset[str] = frozenset(
    [
        "rm",
        "rmdir",
        "unlink",
        "shred",
        "dd",
        "mkfs",
        "fdisk",
        "parted",
        "mount",
        "umount",
        "truncate",
        "shutdown",
        "reboot",
        "halt",
        "poweroff",
        "systemctl",
        "service",
        "launchctl",
        "crontab",
        "at",
        "sudo",
        "su",
        "doas",
        "pkexec",
        "chroot",
        "unshare",
        "nsenter",
        "chmod",
        "chown",
        "chgrp",
        "setfacl",
        "chattr",
        "kill",
        "pkill",
        "killall",
        "eval",
        "exec",
        "source",
        ".",
        "alias",
        "trap",
        "env",
        "xargs",
        "parallel",
        "find",
        "watch",
        "setsid",
        "flock",
        "ionice",
        "nohup",
        "timeout",
        "sh",
        "bash",
        "zsh",
        "dash",
        "ksh",
        "fish",
        "csh",
        "tcsh",
        "busybox",
        "python",
        "python2",
        "python3",
        "node",
        "deno",
        "bun",
        "ruby",
        "perl",
        "php",
        "lua",
        "osascript",
        "awk",
        "gawk",
        "tclsh",
        "expect",
        "gdb",
        "lldb",
        "strace",
        "script",
        "screen",
        "tmux",
        "curl",
        "wget",
        "nc",
        "ncat",
        "netcat",
        "socat",
        "telnet",
        "ftp",
        "sftp",
        "ssh",
        "scp",
        "rsync",
        "aws",
        "gcloud",
        "az",
        "kubectl",
        "helm",
        "terraform",
        "ansible",
        "vault",
        "docker",
        "podman",
        "nerdctl",
        "gpg",
        "openssl",
        "security",
        "pass",
        "op",
        "base64",
        "xxd",
        "psql",
        "mysql",
        "sqlite3",
        "mongo",
        "redis-cli",
        "dropdb",
        "createdb",
        "pg_restore",
        "npx",
        "pnpx",
        "bunx",
        "uvx",
        "pipx",
        "brew",
        "apt",
        "apt-get",
        "yum",
        "dnf",
        "pacman",
        "snap",
    ]
)
NEVER_AFTER: frozenset[tuple[str, str]] = frozenset(
    {
        *(
            ("git", word)
            for word in [
                "push",
                "reset",
                "clean",
                "checkout",
                "restore",
                "rebase",
                "filter-branch",
                "filter-repo",
                "config",
                "remote",
                "submodule",
                "clone",
                "fetch",
                "pull",
                "gc",
                "reflog",
                "update-ref",
                "rm",
                "stash",
                "am",
                "apply",
                "bisect",
                "daemon",
                "worktree",
            ]
        ),
        *(
            (tool, word)
            for tool in ("npm", "pnpm", "yarn", "bun")
            for word in [
                "install",
                "i",
                "add",
                "ci",
                "exec",
                "dlx",
                "publish",
                "login",
                "adduser",
                "token",
                "config",
                "set",
                "uninstall",
                "remove",
                "link",
                "x",
                "run-script",
                "init",
                "create",
            ]
        ),
        ("pip", "install"),
        ("pip", "uninstall"),
        ("pip3", "install"),
        ("uv", "add"),
        ("uv", "pip"),
        ("uv", "sync"),
        ("uv", "tool"),
        ("uv", "publish"),
        ("poetry", "add"),
        ("poetry", "publish"),
        ("cargo", "install"),
        ("cargo", "publish"),
        ("cargo", "run"),
        ("go", "install"),
        ("go", "run"),
        ("go", "generate"),
        ("go", "get"),
        ("gem", "install"),
        ("gem", "push"),
        *(
            ("gh", word)
            for word in [
                "api",
                "auth",
                "secret",
                "ssh-key",
                "gpg-key",
                "repo",
                "release",
                "extension",
                "alias",
                "workflow",
                "gist",
            ]
        ),
    }
)
_WITH_SUBCOMMANDS = frozenset(program for program, _ in NEVER_AFTER)
RUNNERS = frozenset(
    [
        "make",
        "just",
        "npm",
        "pnpm",
        "yarn",
        "cargo",
        "go",
        "gradle",
        "gradlew",
        "mvn",
        "ant",
        "tox",
        "nox",
        "uv",
        "poetry",
        "hatch",
        "rake",
        "bundle",
        "mix",
        "dotnet",
        "swift",
        "zig",
    ]
)
"""Programs that always run code of the project: an exact rule for them is project code too."""
READING_WORDS = (
    "get",
    "list",
    "read",
    "search",
    "find",
    "query",
    "describe",
    "show",
    "fetch",
    "lookup",
    "view",
)
"""Prefixes in the names of MCP tools that only read."""


def rule_for(argv: Sequence[str], exact: str) -> tuple[str, Tier] | None:
    """The rule to suggest for a command and its tier; ``exact`` is the rule for its exact words."""
    for length in (3, 2, 1):
        start = tuple(argv[:length])
        if len(start) == length and start in OPEN:
            return f"Bash({' '.join(start)} *)", "open"
        if len(start) == length and start in PROJECT_CODE:
            return f"Bash({' '.join(start)} *)", "project code"
    if not argv or is_never(argv):
        return None
    return exact, "project code" if argv[0] in RUNNERS else "exact"


def is_never(argv: Sequence[str]) -> bool:
    """Whether no rule may be suggested for a command."""
    program = argv[0].rsplit("/", 1)[-1] if argv else ""
    if program in NEVER or not argv or program != argv[0]:
        return True  # a program named by its path may be any program
    if program in _WITH_SUBCOMMANDS and argv[1:2] and argv[1].startswith("-"):
        return True  # an option before the subcommand, such as git -c
    return any((program, word) in NEVER_AFTER for word in argv[1:2])


def only_looks(tool: str) -> bool:
    """Whether the name of an MCP tool says that it only reads."""
    name = tool.rsplit("__", maxsplit=1)[-1].lower()
    return any(name == word or name.startswith((word + "_", word + "-")) for word in READING_WORDS)
