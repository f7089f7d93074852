"""Builds a world with things to steal and to break, lets the attempts loose in it, and judges.

Run as ``escape_driver.py BACKEND DIRECTORY USER``, as root or as that user; prints one JSON document:
attempt -> what came of it, and "the world" -> what changed although it must not.
It becomes the user only after its imports: an interpreter of another user's would not have the packages they need.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any, cast

SOURCE = Path(__file__).resolve().parents[3] / "src"
sys.path[:0] = [str(SOURCE), str(SOURCE.parent)]

from recollect.guard import sandbox as execution  # noqa: E402 - the path above comes first
from recollect.guard.sandbox.launch import HELPER, interpreter  # noqa: E402
from tests.guard.mcp.project import processes_with  # noqa: E402
from tests.guard.sandbox.escape_attempts import VICTIMS  # noqa: E402

INSIDE = Path(__file__).with_name("escape_attempts.py")


class World:
    """Files, sockets and a shared segment outside the sandbox, and what touched them."""

    def __init__(self, top: Path) -> None:
        self.outside, self.tree, self.bare, self.secrets = (
            top / n for n in ("outside", "tree", "bare", "secrets")
        )
        for directory in (self.outside, self.tree, self.bare, self.secrets / "keys"):
            directory.mkdir(parents=True)
        for name in ("file", "spare1", "spare2", "mode", "times", *VICTIMS):
            (self.outside / name).write_text("untouched")
            (self.outside / name).chmod(0o644)
        os.utime(self.outside / "times", (1_000_000, 1_000_000))
        (self.secrets / "secret").write_text("canary-secret")
        (self.secrets / "keys" / "key").write_text("canary-key")
        self._fill_tree()
        self.contacts: list[str] = []
        self.facts: dict[str, Any] = {
            "outside": str(self.outside),
            "tree": str(self.tree),
            "bare": str(self.bare),
            "secret": str(self.secrets / "secret"),
            "secret_directory": str(self.secrets / "keys"),
            "home": str(top),
            "driver": os.getpid(),
            "helper": str(HELPER),
            "interpreter": interpreter(),
            "shm_key": 0x5EC0 + os.getpid(),
        }
        self._open_doors()
        self.shared = ctypes.CDLL(None).shmget(self.facts["shm_key"], 4096, 0o1600)

    def _fill_tree(self) -> None:
        (self.tree / ".git" / "hooks").mkdir(parents=True)
        (self.tree / ".git" / "hooks" / "sample").write_text("sample")
        (self.tree / ".git" / "config").write_text("[core]\n")
        (self.tree / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        (self.tree / "rc").write_text("own")
        (self.tree / ".ripgreprc").symlink_to("rc")
        (self.tree / "given-link").symlink_to(self.outside / "file")
        (self.tree / "secret-link").symlink_to(self.secrets / "secret")

    def _open_doors(self) -> None:
        os.mkfifo(self.outside / "pipe")
        self.pipe = os.open(self.outside / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        stream, datagram, abstract = (socket.socket(socket.AF_UNIX, kind) for kind in (1, 2, 1))
        tcp, udp = socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.facts |= {"unix_stream": str(self.outside / "s"), "unix_datagram": str(self.outside / "d")}
        self.facts["abstract"] = f"recollect-test-{os.getpid()}"
        stream.bind(self.facts["unix_stream"])
        datagram.bind(self.facts["unix_datagram"])
        abstract.bind("\0" + self.facts["abstract"])
        tcp.bind(("127.0.0.1", 0))
        udp.bind(("127.0.0.1", 0))
        self.facts |= {"tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1]}
        for name, door in {"unix stream": stream, "abstract": abstract, "tcp": tcp}.items():
            door.listen()
            threading.Thread(target=self._accept, args=(name, door), daemon=True).start()
        for name, door in {"unix datagram": datagram, "udp": udp}.items():
            threading.Thread(target=self._receive, args=(name, door), daemon=True).start()

    def _accept(self, name: str, door: socket.socket) -> None:
        while True:
            door.accept()[0].close()
            self.contacts.append(name)

    def _receive(self, name: str, door: socket.socket) -> None:
        while True:
            door.recv(100)
            self.contacts.append(name)

    def state(self) -> dict[str, str]:
        """Every name outside, and every protected name inside, with what it holds."""
        found: dict[str, str] = {}
        for path in (
            self.outside,
            self.secrets,
            *sorted(self.outside.rglob("*")),
            *sorted(self.secrets.rglob("*")),
        ):
            status = path.lstat()
            held = path.read_text() if path.is_file() else ""
            found[str(path)] = (
                f"{status.st_mode:o} {int(status.st_mtime) if path.name == 'times' else ''} {held}"
            )
        for name in (".git/config", ".git/hooks/sample"):
            found[name] = (self.tree / name).read_text() if (self.tree / name).is_file() else "missing"
        found[".git/hooks"] = str(sorted(p.name for p in (self.tree / ".git/hooks").glob("*")))
        found[".ripgreprc"] = os.readlink(self.tree / ".ripgreprc")
        for name in (".git/commondir", ".mcp.json", ".claude", ".vscode", ".bashrc", ".profile", ".zshenv"):
            path = self.tree / name
            used = path.exists() and not (
                path.is_dir() and not any(p for p in path.glob("*") if "blocked" not in p.name)
            )
            found[name] = "used" if used else "unused"
        found["bare HEAD"] = str((self.bare / "HEAD").exists())
        return found

    def close(self) -> None:
        """Remove what no directory holds."""
        ctypes.CDLL(None).shmctl(self.shared, 0, None)


def confined(world: World, backend: str) -> execution.Confinement:
    return execution.Confinement(
        write=(world.tree, world.bare),
        hidden=(world.secrets / "secret", world.secrets / "keys"),
        backend=cast("execution.Backend", backend),
    )


def python(world: World, backend: str, code: str, **limits: Any) -> execution.RunResult:
    return execution.run(
        [interpreter(), "-I", "-S", "-c", code],
        cwd=world.tree,
        confinement=confined(world, backend),
        limits=execution.RunLimits(**limits),
    )


def survivors(world: World, backend: str) -> str:
    """Double fork, new session, closed descriptors, own name."""
    mark = f"31536{os.getpid()}"
    code = f"""
import os
for closing in (True, False):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            if closing:
                os.closerange(0, 64)
            os.execv("/bin/sleep", ["sleep", "{mark}"])
        os._exit(0)
import time; time.sleep(0.3)
print("left")
"""
    result = python(world, backend, code, seconds=120)
    left = processes_with(mark)
    return f"ESCAPED: {left}" if left or result.stdout != b"left\n" else "held: none is left"


def deaf_to_signals(world: World, backend: str) -> str:
    """Ignores and blocks all it can, in many processes, until the time is up."""
    mark = f"31537{os.getpid()}"
    code = f"""
import os, signal, time
mark = "{mark}"
signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
for _ in range(6):
    os.fork()
    os.setsid() if os.getpid() != os.getpgid(0) else None
time.sleep(60)
"""
    began = time.monotonic()
    result = python(world, backend, code, seconds=1)
    late = time.monotonic() - began - 1
    left = processes_with(mark)
    return f"ESCAPED: {left} {late}" if left or not result.timed_out else f"held: {late:.2f} s after the time"


def fork_bomb(world: World, backend: str) -> str:
    """Every process starts two, as long as it can."""
    mark = f"31538{os.getpid()}"
    code = f"""
import os, time
mark = "{mark}"
first = os.getpid()
while not os.path.exists("bounded"):
    try:
        os.fork()
    except OSError:
        open("bounded", "w").close()
time.sleep(1 if os.getpid() == first else 600)
"""
    (world.tree / "bounded").unlink(missing_ok=True)
    peak = [0]
    stop = threading.Event()

    def count() -> None:
        while not stop.wait(0.1):
            peak[0] = max(peak[0], len(processes_with(mark)))

    counter = threading.Thread(target=count)
    counter.start()
    python(world, backend, code, seconds=120, processes=40)
    stop.set()
    counter.join()
    left = processes_with(mark)
    bounded = (world.tree / "bounded").exists() and peak[0] <= 50
    return "held: bounded" if bounded and not left else f"ESCAPED: {peak[0]} processes, {len(left)} left"


def disk_filler(world: World, backend: str) -> str:
    """One file beyond the limit, in the tree, in /tmp and in /dev/shm; then /tmp with many files."""
    code = """
import os
sizes = {}
for place in (".", os.environ["TMPDIR"], "/tmp", "/dev/shm"):
    pid = os.fork()
    if pid == 0:
        try:
            with open(place + "/filler", "wb") as file:
                for _ in range(64):
                    file.write(bytes(1 << 20))
        except OSError:
            pass
        os._exit(0)
    os.waitpid(pid, 0)
    path = place + "/filler"
    sizes[place] = os.path.getsize(path) if os.path.exists(path) else 0
print(max(sizes.values()) >> 20)
"""
    result = python(world, backend, code, seconds=120, file_bytes=8 << 20)
    (world.tree / "filler").unlink(missing_ok=True)
    return (
        "held: bounded"
        if result.stdout.strip().isdigit() and int(result.stdout) <= 8
        else f"ESCAPED: {result}"
    )


def memory_hog(world: World, backend: str) -> str:
    """One process beyond the limit, then eight that are beyond it together."""
    alone = python(
        world, backend, "x = bytearray(400 << 20); print(len(x))", seconds=120, memory_bytes=100 << 20
    )
    together = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        x = bytearray(b"1") * (60 << 20)
        time.sleep(600)
ended, end = 0, time.monotonic() + 90
while not ended and time.monotonic() < end:
    time.sleep(0.02)
    ended = os.waitpid(-1, os.WNOHANG)[0]
print("some were ended" if ended else "all lived")
"""
    many = python(world, backend, together, seconds=120, memory_bytes=100 << 20)
    escaped = alone.stdout or b"all lived" in many.stdout
    return f"ESCAPED: {alone} {many}" if escaped else "held: ended"


def steered_helper(world: World, backend: str) -> str:
    """Loader and interpreter variables, ours and asked for, must not reach the helper."""
    (world.tree / "log").mkdir(exist_ok=True)
    os.environ["LD_DEBUG"], os.environ["LD_DEBUG_OUTPUT"] = "files", str(world.tree / "log" / "ours")
    try:
        execution.run(["/bin/true"], cwd=world.tree, confinement=confined(world, backend))
    finally:
        del os.environ["LD_DEBUG"], os.environ["LD_DEBUG_OUTPUT"]
    asked = {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(world.tree / "log" / "asked")}
    execution.run(["/bin/true"], cwd=world.tree, confinement=confined(world, backend), environment=asked)
    logs = sorted(p.name.partition(".")[0] for p in (world.tree / "log").iterdir())
    return "held: only the command" if logs == ["asked"] else f"ESCAPED: {logs}"


def become(user: int) -> None:
    """Give up all rights but this user's, as a login of theirs would."""
    if user == os.getuid():
        return
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    ctypes.CDLL(None).prctl(
        4, 1, 0, 0, 0
    )  # PR_SET_DUMPABLE: a program that user started has its /proc entries


SPECIALS = (survivors, deaf_to_signals, fork_bomb, disk_filler, memory_hog, steered_helper)


def main(backend: str, top: Path) -> None:
    os.environ |= {"RECOLLECT_TEST_CANARY": "secret", "HOME": str(top)}
    leaked = os.open(os.devnull, os.O_RDONLY)
    os.dup2(leaked, 77, inheritable=True)
    world = World(top)
    os.dup2(os.open(world.outside / "file", os.O_RDONLY), 78, inheritable=True)
    facts = world.tree / "facts.json"
    facts.write_text(json.dumps(world.facts | {"is_control": backend == "unconfined"}))
    program = world.tree / "inside.py"
    program.write_bytes(INSIDE.read_bytes())
    before = world.state()
    result = execution.run(
        [interpreter(), "-I", "-S", str(program), str(facts)],
        cwd=world.tree,
        confinement=confined(world, backend),
        limits=execution.RunLimits(seconds=600),
    )
    time.sleep(0.1)
    after = world.state()
    said = json.loads(result.stdout) if result.stdout else {"it ran": f"ESCAPED: {result}"}
    changed = {name: f"{before.get(name)} -> {after.get(name)}" for name in before.keys() | after.keys()}
    document: dict[str, object] = {
        "attempts": said,
        "world": {name: text for name, text in changed.items() if before.get(name) != after.get(name)},
        "contacts": world.contacts,
        "put_back": result.put_back,
        "not_held": result.not_held,
        "user": os.getuid(),
    }
    if backend != "unconfined":
        said |= {special.__name__: special(world, backend) for special in SPECIALS}
    world.close()
    print(json.dumps(document))


if __name__ == "__main__":
    become(int(sys.argv[3]))
    main(sys.argv[1], Path(sys.argv[2]))
