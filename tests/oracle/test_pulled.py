"""Real clients go on with sessions that came from another machine, and what they add goes back."""

from __future__ import annotations

import json
from pathlib import Path

from recollect.model.project_key import project_key
from tests.oracle.client_runner import Client
from tests.oracle.test_real_clients import SESSION, TALKS, loaded, resumed, written
from tests.share.sync.machines import Machine, remote_log, repository
from tests.share.sync.memory_remote import MemoryRemote


def test_a_pulled_session_is_resumed_here_and_goes_back(client: Client, tmp_path: Path) -> None:
    """Another machine's session, in this machine's copy of the repository: the client sends the whole history and goes
    on from its last line. Pushed, its lines name the other machine's directory again, and there is no branch.
    """
    drafts, messages = TALKS["plain talk"]
    there = repository(tmp_path / "elsewhere" / "shop", "git@github.com:acme/shop.git")
    remote = MemoryRemote()
    other, here = (Machine(tmp_path / name, lambda: remote) for name in ("other", "here"))
    log = other.home / "projects" / project_key(str(there)) / f"{SESSION}.jsonl"
    log.parent.mkdir(parents=True)
    lines = client.put(SESSION, written(client, drafts)).read_bytes()
    log.write_bytes(lines.replace(json.dumps(str(client.cwd)).encode(), json.dumps(str(there)).encode()))
    assert str(there).encode() in log.read_bytes()
    (client.config / "projects" / project_key(str(client.cwd)) / f"{SESSION}.jsonl").unlink()

    other.push()
    here.home = client.config
    here.pull()
    [installed] = here.install(client.cwd).sessions
    assert loaded(messages) == resumed(client, installed.path, SESSION)

    done = here.push()
    assert (done.branches, done.lines > 0) == ([], True)
    assert remote_log(remote, SESSION).startswith(log.read_bytes())
    assert str(client.cwd).encode() not in remote_log(remote, SESSION)[: log.stat().st_size]
