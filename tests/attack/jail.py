"""A jail in which attack texts really run: no network, no capabilities, one small world, thrown away after each text.

What a text did is read from three places: the log of the markers that stand in for denied programs, the protected
files before and after, and what it printed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import stat
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

from recollect.guard.policy.paths import DIRECTORIES, protected_name

CANARY = "canary-5f1e9c"
"""In every file that no command may show, and in the environment."""
SUBSTITUTED = ("aws", "gh", "kubectl", "npm", "helm", "terraform", "docker")
"""Programs with sub-commands; in the jail each is a marker, except where a text needs the real one."""
_MARKER = """#!/bin/dash
{ printf '%s\\037' "${0##*/}" "$@"; printf '\\036'; } >>LOG
"""
_ENVIRONMENT = {
    "API_TOKEN": CANARY, "LC_ALL": "C.UTF-8", "TERM": "dumb", "GIT_CONFIG_NOSYSTEM": "1", "NO_UPDATE_NOTIFIER": "1",
}  # fmt: skip
_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one text did: the denied programs it started, the protected files it changed, what it printed."""

    started: tuple[tuple[str, ...], ...]
    changed: frozenset[str]
    printed: str
    removed_victim: bool


class Jail:
    """One world at one place. ``cwd`` is the working directory, ``outside`` is not in it."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.world = self.root / "world"
        self.cwd, self.outside, self.home = (self.world / name for name in ("repo", "outside", "home"))
        self._template = self.root / "template"
        self._log = self.root / "log"
        self._markers()
        self._build()
        self.renew()

    def _markers(self) -> None:
        self._bin = self.root / "bin"
        self._bin.mkdir(parents=True)
        for name in ("rm", *SUBSTITUTED):
            (self._bin / name).write_text(_MARKER.replace("LOG", str(self._log)))
            (self._bin / name).chmod(0o755)

    def renew(self) -> None:
        """The world as it was at first."""
        shutil.rmtree(self.world, ignore_errors=True)
        shutil.copytree(self._template, self.world, symlinks=True)
        self._log.write_bytes(b"")

    def run(self, text: str, *, real: str = "") -> Outcome:
        """Run the text in a fresh world; ``real`` names a program that no marker replaces."""
        self.renew()
        before = self._protected()
        printed = self._in_bubblewrap(text, real)
        log = self._log.read_text(errors="replace")
        started = tuple(tuple(line.split("\x1f")[:-1]) for line in log.split("\x1e") if line)
        after = self._protected()
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        return Outcome(started, frozenset(changed), printed, not (self.cwd / "victim").exists())

    def _in_bubblewrap(self, text: str, real: str) -> str:
        command = [
            "bwrap",
            "--unshare-all",
            "--cap-drop",
            "ALL",
            "--die-with-parent",
            "--new-session",
            "--clearenv",
        ]
        for name in (
            "/usr",
            "/bin",
            "/lib",
            "/lib64",
            "/sbin",
            "/etc/alternatives",
            "/etc/passwd",
            "/etc/ld.so.cache",
        ):
            if os.path.islink(name):
                command += ["--symlink", os.readlink(name), name]
            elif Path(name).exists():
                command += ["--ro-bind", name, name]
        command += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
        command += ["--bind", str(self.world), str(self.world), "--bind", str(self._log), str(self._log)]
        command += ["--ro-bind", str(self._bin / "rm"), "/usr/bin/rm"]
        markers = self.root / "path"
        if not real:
            command += ["--ro-bind", str(self._bin), str(markers)]
        for name, value in {
            **_ENVIRONMENT,
            "HOME": str(self.home),
            "PATH": f"{markers}:/usr/bin:/bin",
        }.items():
            command += ["--setenv", name, value]
        command += [
            "--chdir",
            str(self.cwd),
            "timeout",
            "-s",
            "KILL",
            "10",
            "bash",
            "--norc",
            "--noprofile",
            "-c",
            text,
        ]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.communicate(timeout=_SECONDS)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return process.communicate()[0].decode(errors="replace")

    def _protected(self) -> dict[str, str]:
        """Every protected file of the working directory with what it holds; git's own records do not count."""
        found = {}
        for directory, names, files in os.walk(self.cwd):
            for name in (*names, *files):
                path = Path(directory, name)
                below = str(path.relative_to(self.cwd))
                if protected_name(below) and not _record_of_git(below):
                    found[below] = _content(path)
        return found

    def _build(self) -> None:
        """The world: a repository, templates with protected names in them, denied files, archives."""
        root = self._template
        repo, home, outside = (root / name for name in ("repo", "home", "outside"))
        for name, text in _FILES.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (repo / "hook").chmod(0o755)
        self._git(repo, "init", "-q", "-b", "main", "--template=")
        (repo / ".git" / "hooks").mkdir()
        self._git(repo, "add", "a.txt", "b.txt", "src", "tracked-secret", ".mcp.json", ".claude", ".npmrc")
        self._git(repo, "commit", "-q", "-m", "one")
        (repo / "b.txt").write_text("two\n")
        self._git(repo, "commit", "-q", "-am", "two")
        (repo / "a.txt").write_text("changed\n")
        (repo / ".mcp.json").write_text("{}")
        with zipfile.ZipFile(repo / "tpl.zip", "w") as archive:
            archive.write(repo / "tpl" / ".mcp.json", ".mcp.json")
            archive.write(repo / "tpl" / "plain", "plain")
        subprocess.run(["tar", "-cf", "tpl.tar", "-C", "tpl", "."], cwd=repo, check=True)
        (repo / "tpl.diff").write_text("--- /dev/null\n+++ b/.npmrc.d/../.envrc\n@@ -0,0 +1 @@\n+planted\n")
        (repo / "hook.diff").write_text("--- /dev/null\n+++ b/.envrc\n@@ -0,0 +1 @@\n+planted\n")
        assert outside.exists()
        assert home.exists()

    def _git(self, repo: Path, *words: str) -> None:
        environment = {**os.environ, "HOME": str(self._template / "home"), "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(["git", *words], cwd=repo, env=environment, check=True, capture_output=True)


def _record_of_git(below: str) -> bool:
    parts = below.split("/")
    return parts[0] == ".git" and (len(parts) < 2 or parts[1] not in DIRECTORIES[".git"])


def _content(path: Path) -> str:
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        return "-> " + os.readlink(path)
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "directory"


_FILES = {
    "home/.gitconfig": "[user]\nname = n\nemail = e@example.com\n",
    "repo/a.txt": "one\ntwo\n",
    "repo/b.txt": "one\n",
    "repo/victim": "keep\n",
    "repo/hook": "#!/bin/sh\nplanted\n",
    "repo/src/x.py": "print(1)\n",
    "repo/src/deep/y.py": "print(2)\n",
    "repo/secret": f"{CANARY} denied\n",
    "repo/secret.json": f'["{CANARY}"]\n',
    "repo/tracked-secret": f"{CANARY} tracked\n",
    "repo/private/key": f"{CANARY} below\n",
    "repo/.mcp.json": '{"mcpServers":{}}\n',
    "repo/.npmrc": "a=b\n",
    "repo/.claude/settings.json": "{}\n",
    "repo/.claude/commands/one.md": "one\n",
    "repo/d/keep": "x\n",
    "repo/sub/.mcp.json": '{"planted":1}\n',
    "repo/sub/.npmrc": "planted\n",
    "repo/sub/settings.json": '{"planted":2}\n',
    "repo/sub/pre-commit": "planted\n",
    "repo/sub/config": "[core]\n\tfsmonitor = planted\n",
    "repo/tpl/.mcp.json": '{"planted":3}\n',
    "repo/tpl/plain": "plain\n",
    "repo/tpl/.claude/settings.json": '{"planted":4}\n',
    "repo/tpl/.husky/pre-commit": "planted\n",
    "repo/tpl/nested/.vscode/tasks.json": '{"planted":5}\n',
    "repo/clean/one": "1\n",
    "repo/clean/more/two": "2\n",
    "outside/secret": f"{CANARY} outside\n",
    "outside/secret.json": f'["{CANARY}"]\n',
    "outside/.mcp.json": '{"planted":6}\n',
}
