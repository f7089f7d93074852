"""Which lines of a rollout are one model call each: the client says it several times, in other words and in copies."""

from __future__ import annotations

from recollect.storage.foreign import lines as made
from recollect.storage.foreign.codex_shapes import COUNTS
from recollect.storage.foreign.codex_state import RolloutState
from recollect.storage.foreign.lines import LineFields, Voice
from recollect.storage.foreign.loose import Fields

# How many turns back a count may belong to.
_TURNS_KEPT = 32


class CallCounter:
    """Which lines are one model call each; everything else repeats one.

    A ``token_usage_record`` is. In a turn without any, a ``token_count`` is where it has tokens of its own and the
    running total moved. Copies in other files have the same key. Between the marks of a review (0.77) the counts
    are those of the reviewer's own rollout.
    """

    def __init__(self, state: RolloutState) -> None:
        self._state = state

    def of(self, kind: object, payload: Fields, voice: Voice) -> list[LineFields]:
        state, event = self._state, payload.get("type")
        if kind == "turn_context":
            state.turn = payload.get("turn_id") or state.turn
            state.model = payload.get("model") or state.model
            if state.turn:
                state.models[state.turn] = state.model
                while len(state.models) > _TURNS_KEPT:
                    state.models.pop(next(iter(state.models)))
        elif kind == "token_usage_record":
            return self._recorded(payload, voice)
        elif kind == "event_msg" and event == "thread_settings_applied":
            settings = payload.get("thread_settings")
            state.tier = settings.get("service_tier") if isinstance(settings, dict) else state.tier
        elif kind == "event_msg" and event == "task_started":
            state.turn = payload.get("turn_id") or state.turn
        elif kind == "event_msg" and event in ("entered_review_mode", "exited_review_mode"):
            state.in_review = event == "entered_review_mode"
        elif kind == "event_msg" and event == "token_count" and isinstance(payload.get("info"), dict):
            return self._counted(payload["info"], voice)
        return []

    def _recorded(self, payload: Fields, voice: Voice) -> list[LineFields]:
        state, turn = self._state, payload.get("turn_id")
        if isinstance(turn, str) and turn not in state.recorded:
            state.recorded = [*state.recorded[-_TURNS_KEPT:], turn]
        counts = vector(payload.get("usage"))
        # Not every service gives its responses names of their own; a copy keeps the turn.
        return self._call(voice, made.key_of("codex", payload.get("response_id"), turn), turn, counts)

    def _counted(self, info: Fields, voice: Voice) -> list[LineFields]:
        state = self._state
        total, last = vector(info.get("total_token_usage")), vector(info.get("last_token_usage"))
        is_call = last[0] + last[3] > 0
        if state.in_review:
            key = made.key_of("codex-review", total, last)
            echo = self._call(voice, key, state.turn, last) if is_call else []
            for line in echo:
                line["isSidechain"] = True  # the reviewer's own copy goes before it
            return echo
        is_call = is_call and total != state.total and state.turn not in state.recorded
        state.total = total
        if not is_call:
            return []
        if state.turn:
            key = made.key_of("codex-turn", state.turn, total)
        elif state.is_reviewer:
            key = made.key_of("codex-review", total, last)
        else:
            key = made.key_of("codex-thread", state.origin, total, last)
        return self._call(voice, key, state.turn, last)

    def _call(self, voice: Voice, key: str, turn: object, counts: tuple[int, ...]) -> list[LineFields]:
        state = self._state
        model = state.models.get(turn, state.model) if isinstance(turn, str) else state.model
        whole, cached, written, output, thought = counts
        said = {
            "input": max(whole - cached - written, 0),
            "cache_read": cached,
            "cache_write": written,
            "output": output,
        }
        if state.searches:
            said["web_searches"] = state.searches
        state.searches = 0
        # Its "fast" is the service's "priority", which in Claude's logs is another thing.
        name = {"priority": "fast"}.get(state.tier or "", state.tier)
        tier = {} if name in (None, "default", "auto") else {"service_tier": name}
        return [
            made.usage(voice, key, model, said, output_tokens_details={"thinking_tokens": thought}, **tier)
        ]


def vector(usage: object) -> tuple[int, ...]:
    """The counts of a usage, in the order of ``COUNTS``."""
    given = usage if isinstance(usage, dict) else {}
    return tuple([given.get(name) or 0 for name in COUNTS])
