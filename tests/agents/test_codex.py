"""Homes of the Codex client, 0.20 to 0.166, read through their mirrors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import zstandard

import recollect
from recollect.agents import codex
from recollect.agents.growth import content
from recollect.agents.mirror import AgentMirror
from recollect.agents.mirror_files import originals
from recollect.ask.sessions.originals import resumed
from recollect.cli.main import main
from recollect.model.lines.damage import readable_entries
from recollect.model.text.titles import typed_text
from recollect.store.logs.reader import LogReader
from tests.agents import tiny_homes
from tests.agents.samples import Sample, codex_samples, counted

Payloads = list[tuple[str, dict[str, object]]]


@pytest.fixture(scope="module")
def samples(transcripts: Path) -> dict[str, Sample]:
    return {one.name: one for one in codex_samples(transcripts)}


def mirror_of(home: Path, data: Path) -> AgentMirror:
    mirror = AgentMirror("codex", home, data)
    mirror.refresh()
    return mirror


def lines_of(mirror: AgentMirror) -> dict[Path, list[dict[str, object]]]:
    return {
        log.relative_to(mirror.root): [json.loads(line) for line in log.read_bytes().splitlines()]
        for log in sorted(mirror.root.rglob("*.jsonl"))
    }


def test_what_was_rolled_back_is_a_dead_branch(samples: dict[str, Sample], tmp_path: Path) -> None:
    home = recollect.Home(samples["0.117.0/server_threads"].home, data=tmp_path, index=False)
    rolled = [
        session
        for session in home.sessions()
        if any(node.subtype == "rolled_back" for node in session.graph.nodes.values())
    ]
    assert rolled
    for session in rolled:
        live = {node.uuid for node in session.conversation().history}
        assert set(session.graph.nodes) - live, "nothing was dropped"


def test_a_revert_goes_on_in_the_same_session(samples: dict[str, Sample], tmp_path: Path) -> None:
    home = recollect.Home(samples["0.166.0/server_revert"].home, data=tmp_path, index=False)
    (session,) = home.sessions()
    texts = [message.text for message in session.conversation().messages if message.role == "user"]
    everything = [message.text for message in session.messages(branches="all") if message.role == "user"]
    assert "alpha" in texts
    assert "gamma" in everything
    assert "gamma" not in texts


def test_a_fork_without_a_copy_holds_the_history_it_needs(samples: dict[str, Sample], tmp_path: Path) -> None:
    sample = samples["0.166.0/exec_fork"]
    home = recollect.Home(sample.home, data=tmp_path, index=False)
    metas = [json.loads(content(unit.path).splitlines()[0])["payload"] for unit in codex.units(sample.home)]
    forks = [
        meta["id"]
        for meta in metas
        if meta.get("history_base") and meta["history_base"]["thread_id"] != meta["id"]
    ]
    assert forks
    for fork in forks:
        conversation = home.session(fork).conversation()
        assert not conversation.graph.orphans
        assert conversation.graph.roots


def test_what_sub_agents_told_their_session_was_not_typed_by_its_user(
    samples: dict[str, Sample], tmp_path: Path
) -> None:
    """It is still sent to the model, and still what a sub-agent itself was asked."""
    home = recollect.Home(samples["0.166.0/agents_v2"].home, data=tmp_path, index=False)
    entries = [entry for session in home.sessions() for entry in readable_entries(session.entries())]
    typed = [text for entry in entries if (text := typed_text(entry)) is not None]
    assert typed
    assert not [text for text in typed if text.startswith("/root")]
    told = [message for session in home.sessions() for message in session.conversation().messages]
    assert [message for message in told if message.text.startswith("/root/worker") and message.is_meta]
    agents = [agent for session in home.sessions() for agent in session.agents()]
    assert agents
    for agent in agents:
        assert any(typed_text(entry) for entry in readable_entries(LogReader(agent.path).entries()))


@pytest.mark.parametrize("is_inherited", [False, True])
def test_a_roll_back_counts_what_a_sub_agent_told(tmp_path: Path, is_inherited: bool) -> None:
    """One turn back is back before its message, also where that was inherited from another thread."""
    home = tmp_path / "home"
    told: tuple[str, dict[str, object]] = (
        "response_item",
        {
            "type": "agent_message",
            "author": "/root/worker",
            "content": [{"type": "text", "text": "found it"}],
        },
    )
    back: tuple[str, dict[str, object]] = ("event_msg", {"type": "thread_rolled_back", "num_turns": 1})
    before = [meta(ALPHA), *turn("one", 100, 100), told]
    if is_inherited:
        rollout(home, ALPHA, 1, before, is_paginated=True)
        name, inherited = meta(BETA)
        base = {"thread_id": ALPHA, "end_ordinal_exclusive": 99}
        rollout(home, BETA, 2, [(name, {**inherited, "history_base": base}), back])
    else:
        rollout(home, BETA, 1, [meta(BETA), *before[1:], back])
    session = recollect.Home(home, data=tmp_path / "data", index=False).session(BETA)
    said = [message.text for message in session.conversation().messages if message.text]
    assert said[:2] == ["one", "one!"]
    assert not [text for text in said if "found it" in text]


def test_a_session_has_the_name_its_user_gave_it(samples: dict[str, Sample], tmp_path: Path) -> None:
    home = recollect.Home(samples["0.166.0/tui"].home, data=tmp_path, index=False)
    assert [session.title for session in home.sessions()].count("My title") == 2


def test_a_rewritten_rollout_adds_its_bytes_and_no_second_copy(
    samples: dict[str, Sample], tmp_path: Path
) -> None:
    """The client can add ordinals to a file in place: the mirror keeps both forms, and one conversation."""
    sample = samples["0.45.0/tui"]
    home = tmp_path / "home"
    shutil.copytree(sample.home, home)
    before = recollect.Home(home, data=tmp_path / "data", index=False)
    talked = {one.id: [message.uuid for message in one.conversation().messages] for one in before.sessions()}
    for unit in codex.units(home):
        if unit.key != codex.NAMES:
            lines = [json.loads(line) for line in unit.path.read_bytes().splitlines()]
            numbered = [{"ordinal": number} | line for number, line in enumerate(lines)]
            unit.path.write_text("".join(json.dumps(line) + "\n" for line in numbered))
    after = recollect.Home(home, data=tmp_path / "data", index=False)
    assert {
        one.id: [message.uuid for message in one.conversation().messages] for one in after.sessions()
    } == talked
    assert counted(after) == sample.billed
    assert not any(one.graph.duplicates for one in after.sessions())
    back = originals(
        line for lines in lines_of(mirror_of(home, tmp_path / "data")).values() for line in lines
    )
    for unit in codex.units(home):
        if unit.key != codex.NAMES:
            assert b"".join(back[unit.source]) == unit.path.read_bytes()


ALPHA, BETA, GAMMA = (f"01a1e97c-{part}-7113-ae4a-616306ff5c35" for part in ("214f", "4f25", "6a4c"))


def rollout(home: Path, thread: str, second: int, payloads: Payloads, *, is_paginated: bool = False) -> None:
    """A file as the client names it, begun so many seconds after nine; with ordinals, as since 0.142."""
    path = home / f"sessions/2026/11/16/rollout-2026-11-16T09-00-{second:02}-{thread}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    at = f"2026-11-16T09:00:{second:02}.000Z"
    lines = [
        {"timestamp": at, **({"ordinal": number} if is_paginated else {}), "type": kind, "payload": payload}
        for number, (kind, payload) in enumerate(payloads)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def turn(words: str, total: int, last: int) -> Payloads:
    """A prompt, its answer and what the call used, as 0.98 wrote them: no ids of turns."""

    def message(role: str, kind: str, text: str) -> tuple[str, dict[str, object]]:
        return "response_item", {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}

    counts = {name: {"input_tokens": value} for name, value in (("total", total), ("last", last))}
    info = {f"{name}_token_usage": value for name, value in counts.items()}
    return [
        message("user", "input_text", words),
        ("turn_context", {"cwd": "/w", "model": "gpt-5"}),
        message("assistant", "output_text", f"{words}!"),
        ("event_msg", {"type": "token_count", "info": info}),
    ]


def meta(thread: str, above: str | None = None) -> tuple[str, dict[str, object]]:
    return "session_meta", {"id": thread, "forked_from_id": above, "cwd": "/w", "cli_version": "0.98.0"}


@pytest.mark.parametrize("index", [False, True])
@pytest.mark.parametrize("backtrack", [False, True])
def test_a_call_belongs_to_the_fork_that_made_it_also_where_that_was_forked_again(
    tmp_path: Path, index: bool, backtrack: bool
) -> None:
    """Before 0.100 nothing in a file says where the copy ends. The first clients did not even name the original."""
    home = tmp_path / "home"
    first, second, third = turn("one", 100, 100), turn("two", 230, 130), turn("three", 370, 140)
    above = [None, None] if backtrack else [ALPHA, BETA]
    rollout(home, ALPHA, 1, [meta(ALPHA), *first])
    rollout(home, BETA, 2, [meta(BETA, above[0]), meta(ALPHA), *first, *second])
    copied = [meta(BETA, above[0]), meta(ALPHA), *first, *second]
    rollout(home, GAMMA, 3, [meta(GAMMA, above[1]), *copied, *third])
    found = recollect.Home(home, data=tmp_path / "data", index=index)
    used = {call.thread: call.input for call in counted(found)}
    assert used == {ALPHA: 100, BETA: 130, GAMMA: 140}
    own = [
        line["uuid"] for line in lines_of(mirror_of(home, tmp_path / "data"))[log_of(BETA)] if is_own(line)
    ]
    assert len(own) == 2


def log_of(thread: str) -> Path:
    return Path("projects", "-w", f"{thread}.jsonl")


def is_own(line: dict[str, object]) -> bool:
    return "uuid" in line and "forkedFrom" not in line


def test_a_fork_whose_original_is_gone_still_counts_its_calls(tmp_path: Path) -> None:
    home = tmp_path / "home"
    both = [*turn("one", 100, 100), *turn("two", 230, 130)]
    rollout(home, BETA, 2, [meta(BETA, ALPHA), meta(ALPHA), *both])
    found = recollect.Home(home, data=tmp_path / "data", index=False)
    assert {(call.thread, call.input) for call in counted(found)} == {(BETA, 100), (BETA, 130)}


def test_services_may_give_two_responses_one_name(tmp_path: Path) -> None:
    """A local service that counts from 1 at each start."""
    home = tmp_path / "home"
    for second, thread in enumerate((ALPHA, BETA)):
        usage = {"input_tokens": 100 + second}
        said: dict[str, object] = {"turn_id": thread, "response_id": "resp_1", "usage": usage}
        context: dict[str, object] = {"turn_id": thread, "model": "gpt-5", "cwd": "/w"}
        rollout(home, thread, second, [meta(thread), ("turn_context", context), ("token_usage_record", said)])
    found = recollect.Home(home, data=tmp_path / "data", index=False)
    assert {(call.thread, call.input) for call in counted(found)} == {(ALPHA, 100), (BETA, 101)}


def test_an_unknown_record_is_kept_shown_as_unknown_and_hides_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home, thread = tmp_path / "home", ALPHA
    hello: dict[str, object] = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "hello"}],
    }
    rollout(home, thread, 0, [meta(thread), ("hologram", {"depth": 3}), ("response_item", hello)])
    with next(home.rglob("rollout-*")).open("a") as file:
        file.write("not json\n")
    found = recollect.Home(home, data=tmp_path / "data", index=False)
    (session,) = found.sessions()
    assert [message.text for message in session.conversation().messages] == ["hello"]
    report = found.check()
    assert {(one.code, one.what) for one in report.findings} == {
        ("unknown-type", "type 'codex:hologram'"),
        ("unreadable-record", "a line of codex's file is no record"),
    }
    for words in (
        ["show", thread],
        ["show", "--json", thread],
        ["show", thread, "--tree"],
        ["show", "--tree", "--json", thread],
    ):
        assert main(["--home", str(home), "--data", str(tmp_path / "data"), *words]) == 0
        assert "2 records are not known and not shown" in capsys.readouterr().err, words
    written = ["export", thread, "--format", "html", "--output", str(tmp_path / "page.html")]
    assert main(["--home", str(home), "--data", str(tmp_path / "data"), *written]) == 0
    assert "2 unknown records" in (tmp_path / "page.html").read_text()
    assert found.costs().totals.responses == 0


@pytest.mark.parametrize(("tier", "dollars"), [(None, "11.25"), ("flex", "5.625"), ("priority", "22.5")])
def test_a_call_costs_what_its_service_tier_costs(tier: str | None, dollars: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    used = {"input_tokens": 1_000_000, "output_tokens": 1_000_000, "total_tokens": 2_000_000}
    settings = {"model": "gpt-5", "service_tier": tier}
    payloads: Payloads = [
        meta(ALPHA),
        ("event_msg", {"type": "thread_settings_applied", "thread_settings": settings}),
        ("turn_context", {"turn_id": BETA, "model": "gpt-5", "cwd": "/srv/app"}),
        ("token_usage_record", {"turn_id": BETA, "response_id": "r1", "usage": used}),
    ]
    rollout(home, ALPHA, 0, payloads)
    report = recollect.Home(home, data=tmp_path / "data", index=False).costs()
    assert (str(report.totals.usd), len(report.uncertain)) == (dollars, 0)


@pytest.mark.parametrize("index", [True, False])
def test_the_title_is_what_was_typed_beside_a_picture(transcripts: Path, tmp_path: Path, index: bool) -> None:
    """Codex 0.166 writes tags around it, each as a text of its own."""
    home = transcripts / "dialects/samples/codex/0.166.0/image/.codex"
    (session,) = recollect.Home(home, data=tmp_path, index=index).sessions()
    assert session.title == "what is this"


def written(
    home: Path, data: Path, session: str, capsys: pytest.CaptureFixture[str]
) -> tuple[dict[str, bytes], str]:
    """The files of a session as ``export --format original`` writes them, and what it says."""
    out = data / "out"
    shutil.rmtree(out, ignore_errors=True)
    words = ["export", session, "--format", "original", "--no-redact", "--output", str(out)]
    assert main([*words, "--home", str(home), "--data", str(data)]) == 0
    files = {str(one.relative_to(out)): one.read_bytes() for one in out.rglob("*") if one.is_file()}
    return files, capsys.readouterr().err


def test_a_compressed_rollout_is_written_as_it_was_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under the name it had then, which every version of the client reads; the command says so."""
    home = tmp_path / "home"
    packed = tiny_homes.codex_compressed(home)
    files, told = written(home, tmp_path / "data", tiny_homes.CHANGED, capsys)
    plain = str(packed.relative_to(home)).removesuffix(".zst")
    assert files == {plain: content(packed)}
    assert "not compressed, and without .zst in its name" in told
    assert "not compressed" not in written(home, tmp_path / "data", tiny_homes.UNTOUCHED, capsys)[1]


@pytest.mark.parametrize("before", ["compressed", "archived"])
def test_a_rollout_that_was_moved_and_grew_is_one_file(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The client unpacks a compressed one when it resumes it; an archived one can be taken out of its archive."""
    home, data = tmp_path / "home", tmp_path / "data"
    plain = tiny_homes.codex(home)
    kept = b"".join(plain.read_bytes().splitlines(keepends=True)[:9])
    if before == "archived":
        packed = home / "archived_sessions" / plain.name
        packed.parent.mkdir()
        packed.write_bytes(kept)
    else:
        packed = plain.with_name(f"{plain.name}.zst")
        packed.write_bytes(zstandard.ZstdCompressor().compress(kept))
    plain.unlink()
    mirror_of(home, data)
    packed.unlink()
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "more"}]}
    line = {"timestamp": tiny_homes.AT, "type": "response_item", "payload": item}
    plain.write_bytes(kept + json.dumps(line).encode() + b"\n")
    mirror_of(home, data)
    files, _ = written(home, data, tiny_homes.CHANGED, capsys)
    assert list(files.values()) == [plain.read_bytes()]
    session = recollect.Home(home, data=data, index=False).session(tiny_homes.CHANGED)
    asked = [one["content"][0]["text"] for one in resumed(session) if one.get("role") == "user"]
    assert asked == [f"ask {tiny_homes.CHANGED}", "more"]
