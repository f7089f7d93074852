"""What repair makes of each kind of damage, and of thousands of damaged logs at once (G11)."""

from __future__ import annotations

import base64
import json
import os
import random
import struct
from collections import Counter

import pytest

from recollect.model.checks.resumed import resumed_log
from recollect.model.diagnosis import diagnosed
from recollect.model.repair.draft import RepairDraft
from recollect.model.repair.plan import as_read
from recollect.model.repair.proof import proved, scan_of
from tests.model.repair.damaged import damaged_log, talk
from tests.model.repair.mended_bytes import codes, entries, output, planned, rebuilt, source_of
from tests.talk import Fields, assistant, call, encoded, result, user

TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
FILES = 10_000 if TORTURE else 500
GROUPS = 10

Q1, A1 = user("q1", None, 0, "Q1"), assistant("a1", "q1", 60, "A1")
Q2, A2 = user("q2", "a1", 120, "Q2"), assistant("a2", "q2", 180, "A2")
TALK = [Q1, A1, Q2, A2]
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}


def line(entry: Fields) -> bytes:
    return encoded([entry])


def sent(draft: RepairDraft) -> list[Fields]:
    """The messages that the client would send of the result."""
    return list(resumed_log(draft.graph(), draft.line_of).messages)


def spoken(data: bytes) -> list[str]:
    """The texts of the messages that would be sent."""
    found = []
    for message in sent(planned(data).draft):
        blocks = (
            message["content"] if isinstance(message["content"], list) else [{"text": message["content"]}]
        )
        found.append(" ".join(str(block.get("text", block.get("type"))) for block in blocks))
    return found


# ---- nothing to do ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_a_sound_session_is_left_alone(seed: int) -> None:
    """Calls in parallel, thinking, progress, metadata: no action, and not a byte is set aside."""
    data = encoded(talk(random.Random(seed)))
    plan = planned(data)

    assert ((), (), data) == (plan.actions, plan.set_aside, output(plan))


@pytest.mark.parametrize(
    "data",
    [
        encoded(TALK).replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + encoded(TALK),
        b"\n\n" + encoded(TALK),
        encoded([*TALK, Q2]),
        b"",
        encoded(TALK)[:-1],
        encoded(TALK) + bytes(512),
        line(Q1) + line(A1)[:-1] + bytes(7) + b"\n" + encoded(TALK[2:]),
        line(Q1) + line(A1).replace(b'"A1"', b'"A1\xff"') + encoded([Q2, A2]),
        line(Q1) + b"null\n" + encoded(TALK[1:]),
        line(Q1) + b"42\n" + encoded(TALK[1:]),
        line(Q1) + b"\x1f\x8b\x08\n" + encoded(TALK[1:]),
        encoded([{**Q1, "parentUuid": "a2"}, A1, Q2, A2]),
        encoded([user("b1", "b2", 10, "X"), assistant("b2", "b1", 20, "Y"), *TALK]),
    ],
    ids=[
        "CRLF",
        "BOM",
        "blank lines",
        "exact repeat",
        "empty",
        "no final newline",
        "NULs at the end",
        "NULs behind a line",
        "invalid UTF-8",
        "null",
        "a number",
        "gzip",
        "circle",
        "circle beside",
    ],
)
def test_what_loses_no_message_stays(data: bytes) -> None:
    """The client sends every message of these; so they are left as they are."""
    assert ((), data) == (planned(data).actions, output(planned(data)))


def test_a_call_at_the_very_end_is_left_to_the_client() -> None:
    """It closes open calls itself, in its own words."""
    data = encoded([*TALK, user("q3", "a2", 200, "Q3"), assistant("a3", "q3", 210, [call("toolu_1")])])

    assert () == planned(data).actions


# ---- lines -----------------------------------------------------------------------------------------------


def test_half_a_last_line_is_set_aside() -> None:
    """Exactly the bytes behind the last newline."""
    data = encoded(TALK) + b'{"type":"user","mess'
    plan = planned(data)

    assert (Counter(["torn-tail"]), encoded(TALK), 20) == (codes(plan), output(plan), plan.bytes_set_aside)


def test_glued_objects_become_lines() -> None:
    """The second is lost to the client; all their bytes are kept, and a newline is put between them."""
    data = line(Q1) + line(A1)[:-1] + line(Q2) + line(A2)
    plan = planned(data)

    assert (Counter(["glued-split"]), encoded(TALK), 0) == (codes(plan), output(plan), plan.bytes_set_aside)
    assert (1, 4) == (plan.proof.history_before, plan.proof.history_after)


def test_bytes_that_are_no_text_do_not_keep_a_block_from_being_removed() -> None:
    """They are written as the client reads them; the message keeps its other fields."""
    text = {"type": "text", "text": "A1"}
    answer = assistant("a1", "q1", 60, [text, IMAGE])
    plan = planned(line(Q1) + line(answer).replace(b"end_turn", b"end\xffturn") + encoded([Q2, A2]))

    assert (Counter(["misplaced-block"]), True) == (codes(plan), plan.proof.holds)
    kept = {**answer["message"], "content": [text], "stop_reason": "end\ufffdturn"}
    assert kept == entries(plan)[1]["message"]


@pytest.mark.parametrize("time", ["yesterday", "2026-99", "~"])
def test_the_entry_that_the_client_ends_with_gets_the_time(time: str) -> None:
    """It compares times as text: of one that is no time, too; so that is the last entry, wherever others stand."""
    data = encoded([Q1, A2, A1, {**Q2, "timestamp": time}])
    plan = planned(data)

    assert ([("time-filled", "q2")], True) == (
        [(one.code, one.uuid) for one in plan.actions],
        plan.proof.holds,
    )
    assert ["Q1", "A1", "Q2", "A2"] == spoken(output(plan))


def test_a_whole_entry_behind_half_a_one_is_saved() -> None:
    """A crash, then another writer on the same line: only the half is set aside."""
    half = line(Q1)[:40]
    data = encoded([Q1, A1]) + half + line(Q2) + line(A2)
    plan = planned(data)

    assert (encoded(TALK), 40) == (output(plan), plan.bytes_set_aside)


def test_an_object_inside_half_a_line_is_no_entry() -> None:
    """The message of an entry whose end was cut is not taken for an entry."""
    half = b'{"type":"progress","data":{"type":"user","uuid":"x","message":{"role":"user","content":"x"}}'
    plan = planned(encoded(TALK) + half + b"\n")

    assert (encoded(TALK), len(half) + 1) == (output(plan), plan.bytes_set_aside)


@pytest.mark.parametrize(
    ("data", "aside"),
    [
        (line(Q1) + bytes(100) + encoded(TALK[1:]), 100),
        (line(Q1) + line(A1)[:-1] + bytes(7) + line(Q2) + line(A2), 7),
    ],
    ids=["before a line", "between two"],
)
def test_nul_runs_are_set_aside(data: bytes, aside: int) -> None:
    """What stood beside them on the line is kept."""
    plan = planned(data)

    assert (encoded(TALK), aside) == (output(plan), plan.bytes_set_aside)


# ---- times and links -------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [None, "", "yesterday"])
def test_times_are_filled_where_the_session_would_not_be_found(missing: str | None) -> None:
    """The last line gets the time before it and a millisecond."""
    plan = planned(encoded([*TALK[:3], {**A2, "timestamp": missing}]))

    assert "2026-01-01T00:02:00.001Z" == entries(plan)[3]["timestamp"]
    assert (0, 4) == (plan.proof.history_before, plan.proof.history_after)


def test_a_time_missing_inside_is_left() -> None:
    """Every message is found all the same."""
    assert () == planned(encoded([Q1, {**A1, "timestamp": None}, Q2, A2])).actions


def test_an_orphan_is_joined_to_what_stands_before_it() -> None:
    """The history would start at it, because the gap is longer than five seconds."""
    plan = planned(encoded([Q1, A1, {**Q2, "parentUuid": "gone"}, A2]))

    assert (Counter(["relinked"]), "a1") == (codes(plan), entries(plan)[2]["parentUuid"])
    assert (2, ("q1", "a1")) == (plan.proof.history_before, plan.proof.gained)


def test_an_orphan_goes_where_its_unreadable_parent_stood() -> None:
    """Another branch stands between; the half line still tells what it followed."""
    branch = user("b1", "q1", 70, "Another branch")
    torn = line(Q2).replace(b'"message":{', b'"message":')
    plan = planned(encoded([Q1, A1, branch]) + torn + line(A2))

    assert ("a1", 3) == (entries(plan)[3]["parentUuid"], plan.proof.history_after)


def test_an_entry_that_follows_itself_is_linked_to_the_one_before_it() -> None:
    """The history would start at it."""
    plan = planned(encoded([Q1, A1, {**Q2, "parentUuid": "q2"}, A2]))

    assert ("a1", 4) == (entries(plan)[2]["parentUuid"], plan.proof.history_after)


def test_a_shorter_branch_that_is_read_again_does_not_take_over() -> None:
    """Lines behind NULs branch off early and stand last: the history is no shorter than before."""
    branch = [user("b1", "q1", 190, "Other"), assistant("b2", "b1", 200, "way")]
    plan = planned(encoded(TALK) + bytes(9) + line(branch[0])[:-1] + line(branch[1]))

    assert (Counter({"nul-trimmed": 1, "leaf-kept": 1}), 4) == (codes(plan), plan.proof.history_after)
    assert ("a2", 7) == (entries(plan)[-1]["leafUuid"], len(entries(plan)))
    assert () == planned(output(plan)).actions


# ---- calls and results -----------------------------------------------------------------------------------

CALL = [Q1, assistant("c1", "q1", 60, [call("toolu_1")]), user("r1", "c1", 61, [result("toolu_1")])]
REST = [assistant("a1", "r1", 62, "A1"), user("q2", "a1", 120, "Q2"), assistant("a2", "q2", 180, "A2")]


@pytest.mark.parametrize(
    "lines",
    [
        [*CALL[:2], {**REST[0], "parentUuid": "c1"}, *REST[1:]],
        [Q1, A1, user("r9", "a1", 100, [result("toolu_9")]), assistant("a2", "r9", 101, "A2")],
        [*CALL, *REST, {**CALL[1], "uuid": "c2", "parentUuid": "a2"}, assistant("a3", "c2", 300, "A3")],
        [*CALL[:2], user("r1", "c1", 61, [result("toolu_1", [{"type": "text", "text": ""}])]), *REST],
    ],
    ids=["lost result", "lost call", "repeated id", "empty result"],
)
def test_what_the_client_pairs_itself_stays(lines: list[Fields]) -> None:
    """It sends what fits and leaves out the rest; a repair does not touch it."""
    assert () == planned(encoded(lines)).actions


def test_a_call_id_that_the_api_refuses_is_renamed_with_that_of_its_result() -> None:
    """Both get the same id."""
    lines = [Q1, assistant("c1", "q1", 60, [call("a b")]), user("r1", "c1", 61, [result("a b")]), *REST]
    plan = planned(encoded(lines))
    new = [
        entries(plan)[1]["message"]["content"][0]["id"],
        entries(plan)[2]["message"]["content"][0]["tool_use_id"],
    ]

    assert (Counter({"call-renamed": 1, "result-renamed": 1}), new[0]) == (codes(plan), new[1])
    assert new[0].startswith("toolu_")


# ---- content ---------------------------------------------------------------------------------------------


def answered(*blocks: Fields) -> list[Fields]:
    return [Q1, assistant("a1", "q1", 60, list(blocks)), Q2, A2]


def test_empty_text_beside_something_is_taken_out() -> None:
    """The API refuses it whenever the session is resumed."""
    plan = planned(encoded(answered({"type": "text", "text": " "}, {"type": "text", "text": "A1"})))

    assert (Counter(["empty-text"]), ["A1"]) == (
        codes(plan),
        [block["text"] for block in entries(plan)[1]["message"]["content"]],
    )


def test_unsigned_thinking_is_taken_out_of_its_line() -> None:
    """The answer stays."""
    plan = planned(encoded(answered({"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "A1"})))

    assert ["A1"] == [block.get("text") for block in entries(plan)[1]["message"]["content"]]


def test_a_line_of_refused_thinking_stays_without_it() -> None:
    """Nothing that follows it has to change, and nothing of it is sent."""
    thinking = {"type": "thinking", "thinking": "hm"}
    lines = [Q1, assistant("t1", "q1", 59, [thinking], "msg"), assistant("a1", "t1", 60, "A1", "msg"), Q2, A2]
    plan = planned(encoded(lines))

    assert (Counter(["thinking-removed"]), []) == (codes(plan), entries(plan)[1]["message"]["content"])
    assert ["Q1", "A1", "Q2", "A2"] == spoken(encoded(lines))


def test_empty_thinking_with_a_signature_stays() -> None:
    """The API returns it so where the display of thinking is omitted."""
    thought = {"type": "thinking", "thinking": "", "signature": "c2ln"}

    assert () == planned(encoded(answered(thought, {"type": "text", "text": "A1"}))).actions


def png(width: int, height: int) -> str:
    header = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height)
    return base64.b64encode(header + bytes(20)).decode()


@pytest.mark.parametrize(
    ("data", "reason"),
    [("", "empty"), (png(8001, 10), "8001 x 10 pixels"), ("A" * 5_242_884, "5242884 bytes")],
    ids=["empty", "pixels", "bytes"],
)
@pytest.mark.parametrize("where", ["prompt", "result"])
def test_images_the_api_refuses_become_a_note(data: str, reason: str, where: str) -> None:
    """In a prompt as in a result; the original line is set aside."""
    image = {**IMAGE, "source": {**IMAGE["source"], "data": data}}  # type: ignore[dict-item]
    content = [{"type": "text", "text": "See"}, image]
    prompt, outcome = user("q1", None, 0, content), user("r1", "c1", 61, [result("toolu_1", content)])
    lines = [prompt, A1, Q2, A2] if where == "prompt" else [*CALL[:2], outcome, *REST]
    plan = planned(encoded(lines))
    changed = entries(plan)[0 if where == "prompt" else 2]

    assert (Counter(["image-replaced"]), True) == (codes(plan), reason in json.dumps(changed))
    assert len(line(lines[0 if where == "prompt" else 2])) == plan.bytes_set_aside


def test_an_image_the_api_takes_stays() -> None:
    """8000 pixels are not too many."""
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": png(8000, 8000)},
    }

    assert () == planned(encoded([user("q1", None, 0, [image]), A1, Q2, A2])).actions


# ---- everything at once ----------------------------------------------------------------------------------


def test_a_change_leaves_every_other_byte_of_the_line() -> None:
    """Unknown fields, odd numbers and the order of fields stay as they were written."""
    odd = line({**Q2, "parentUuid": "gone"})[:-2] + b',"zz": 1.50,"e":"\\u00e9"}\n'
    plan = planned(encoded([Q1, A1]) + odd + line(A2))

    assert b',"zz":1.50,"e":"\\u00e9"}' in output(plan)


@pytest.mark.parametrize("group", range(GROUPS))
def test_generated_damage_is_mended_once_and_for_all(group: int) -> None:
    """Sizes add up, the original can be put together again, the API takes the result, a second repair finds nothing.

    Refused, and rare: a recovered line is the parent that an entry names, and the client had joined that to a longer branch.
    """
    refused = 0
    for seed in range(group * FILES // GROUPS, (group + 1) * FILES // GROUPS):
        data = damaged_log(seed)
        plan = planned(data)
        result_bytes = output(plan)
        again = planned(result_bytes)

        assert len(data) == plan.bytes_kept + plan.bytes_set_aside, seed
        assert (data, plan.bytes_after) == (rebuilt(plan, data), len(result_bytes)), seed
        assert ((), plan.proof.history_after) == (again.actions, again.proof.history_before), seed
        if plan.proof.history_after < plan.proof.history_before:
            assert diagnosed(source_of(data)).repair is None, seed
            refused += 1
        else:
            assert () == plan.proof.problems, seed
    assert refused <= FILES // GROUPS / 500


# ---- the proof -------------------------------------------------------------------------------------------


def draft_of_the_talk() -> RepairDraft:
    return as_read(source_of(encoded(TALK)))


def problems(draft: RepairDraft) -> list[str]:
    source = source_of(encoded(TALK))
    before = source.scan()
    proof, _ = proved(draft, before, before.violations, scan_of(draft, source.log, before))
    return [one.partition(":")[0] for one in proof.problems]


def test_a_result_that_is_what_it_was_is_proved() -> None:
    """Nothing was done, so nothing is worse."""
    assert [] == problems(draft_of_the_talk())


def test_a_shorter_history_is_no_repair() -> None:
    """A prompt that follows nothing starts a conversation of two messages."""
    draft = draft_of_the_talk()
    draft.change(2, {"parentUuid": None}, "relinked", "for a test")

    assert ["the history would have 2 messages, and has 4"] == problems(draft)


@pytest.mark.parametrize(
    ("number", "content", "code"),
    [
        (2, [IMAGE], "api-empty-image"),
        (1, [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "A"}], "api-unsigned-thinking"),
        (0, " ", "api-empty-content"),
    ],
)
def test_what_the_api_would_newly_refuse_is_no_repair(number: int, content: object, code: str) -> None:
    """The rules of the proof are those of a check."""
    draft = draft_of_the_talk()
    message = {**TALK[number]["message"], "content": content}
    draft.change(number, {"message": message}, "empty-text", "for a test")

    assert [code] == problems(draft)
