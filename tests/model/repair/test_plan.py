"""What repair makes of each kind of damage, and of thousands of damaged logs at once (G11)."""

from __future__ import annotations

import base64
import json
import os
import random
import struct
from collections import Counter

import pytest

from recollect.model.checks.lines import resumed_log
from recollect.model.repair.draft import RepairDraft
from recollect.model.repair.plan import as_read, diagnosed, proved, scan_of
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


# ---- lines -----------------------------------------------------------------------------------------------


def test_an_object_inside_half_a_line_is_no_entry() -> None:
    """The message of an entry whose end was cut is not taken for an entry."""
    half = b'{"type":"progress","data":{"type":"user","uuid":"x","message":{"role":"user","content":"x"}}'
    plan = planned(encoded(TALK) + half + b"\n")

    assert (encoded(TALK), len(half) + 1) == (output(plan), plan.bytes_set_aside)


# ---- times and links -------------------------------------------------------------------------------------


def test_an_orphan_goes_where_its_unreadable_parent_stood() -> None:
    """Another branch stands between; the half line still tells what it followed."""
    branch = user("b1", "q1", 70, "Another branch")
    torn = line(Q2).replace(b'"message":{', b'"message":')
    plan = planned(encoded([Q1, A1, branch]) + torn + line(A2))

    assert ("a1", 3) == (entries(plan)[3]["parentUuid"], plan.proof.history_after)


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


# ---- content ---------------------------------------------------------------------------------------------


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
