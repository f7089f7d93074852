"""Write a claude conversation in the flat dialect.

Content becomes text, as readers of that dialect expect; calls and results get lines of their own. A response
is written as a whole where it begins: its counts on the first of its lines and zeros on the others, so that
adding up all lines gives the right total.

Entries are taken in the order given: pass one branch, not a whole tree. Everything the dialect cannot hold is
noted as a loss. No log content makes this raise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from recollect.model.convert.turns import (
    Conversion,
    LossCode,
    LossCollector,
    Response,
    Turn,
    TurnCall,
    TurnPrompt,
    TurnResult,
    turns_of,
)
from recollect.model.lines import draft
from recollect.model.lines.blocks import (
    Block,
    DocumentBlock,
    ImageBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from recollect.model.lines.damage import Damage
from recollect.model.lines.dialects import FORMAT_VERSION
from recollect.model.lines.entry import Assistant, ChainBody, Entry, User


def claude_to_flat(entries: Iterable[Entry | Damage]) -> Conversion:
    """Convert a claude conversation into lines of the flat dialect."""
    losses = LossCollector()
    items = list(entries)
    turns = turns_of(items, losses)
    _report_branches(items, losses)
    writer = _FlatWriter(losses)
    for turn in turns:
        writer.turn(turn)
    return Conversion(writer.lines, losses.all())


_NO_PLACE_FOR: tuple[tuple[tuple[type, ...], LossCode, str], ...] = (
    ((ThinkingBlock, RedactedThinkingBlock), LossCode.THINKING, "thinking"),
    ((ImageBlock,), LossCode.IMAGE, "image"),
    ((DocumentBlock,), LossCode.DOCUMENT, "document"),
    ((UnknownBlock,), LossCode.UNKNOWN_BLOCK, "block of an unknown type"),
)


class _FlatWriter:
    """Lines in order; the dialect has no other structure."""

    def __init__(self, losses: LossCollector) -> None:
        self.lines: list[bytes] = []
        self._losses = losses
        self._reported: set[int] = set()
        self._named: set[str] = set()

    def turn(self, turn: Turn) -> None:
        match turn:
            case TurnPrompt():
                self._prompt(turn)
            case Response():
                self._response(turn)
            case TurnResult():
                self._result(turn)
            case Entry():
                self.lines.append(turn.raw)

    def _prompt(self, prompt: TurnPrompt) -> None:
        texts = self._texts(prompt.source, prompt.blocks) or [""]
        session = prompt.source.session_id
        origin = {"sessionId": session} if session else None
        for words in texts:
            content = msgspec.Raw(msgspec.json.encode(words))
            self._write(prompt.source, draft.FlatLine(type="user", content=content, metadata=origin))

    def _response(self, response: Response) -> None:
        pieces = self._pieces(response)
        if not pieces or isinstance(pieces[0][1], ToolUseBlock):
            pieces.insert(0, (response.source, ""))  # the counts go on an empty line
        usage, stop = self._counts(response), response.best.stop_reason if response.best else None
        for source, piece in pieces:
            if isinstance(piece, ToolUseBlock):
                self._write(source, draft.flat_call(piece))
                continue
            content = msgspec.Raw(msgspec.json.encode(piece))
            line = draft.FlatLine(
                type="assistant", content=content, usage=usage, model=response.model, stop_reason=stop
            )
            self._write(source, line)
            usage = draft.flat_usage(None)  # counted once, on the first line
        for result in response.results:
            self._result(result)

    def _pieces(self, response: Response) -> list[tuple[Entry, str | ToolUseBlock]]:
        pieces: list[tuple[Entry, str | ToolUseBlock]] = []
        for source, part in response.parts:
            if isinstance(part, TurnCall):
                pieces.append((source, part.block))
            else:
                pieces += [(source, words) for words in self._texts(source, [part])]
        return pieces

    def _texts(self, source: Entry, blocks: Sequence[Block]) -> list[str]:
        for block in blocks:
            if not isinstance(block, TextBlock):
                self._lost(*_no_place_for(block), source)
        return [block.text for block in blocks if isinstance(block, TextBlock)]

    def _counts(self, response: Response) -> dict[str, int]:
        usage = response.best.usage if response.best else None
        if usage is None:
            self._lost(LossCode.USAGE_UNKNOWN, "response without token counts, written as 0", response.source)
        elif usage.tokens().cache_write_1h:
            self._lost(LossCode.CACHE_LIFETIME, "cache writes that live an hour", response.source)
        usual = (None, "standard")
        if usage and (usage.web_searches or usage.speed not in usual or usage.service_tier not in usual):
            self._lost(LossCode.USAGE_DETAIL, "web searches, speed or service tier", response.source)
        return draft.flat_usage(usage)

    def _result(self, result: TurnResult) -> None:
        name = result.call.block.name if result.call else result.name
        line = draft.flat_result(result.block, name or "")
        self._write(result.source, line)

    def _write(self, source: Entry, line: draft.FlatLine) -> None:
        uuid = source.uuid if source.uuid not in self._named else None
        if uuid:
            self._named.add(uuid)
        self.lines.append(
            msgspec.json.encode(
                msgspec.structs.replace(
                    line, timestamp=source.body.timestamp, uuid=uuid, format_version=FORMAT_VERSION
                )
            )
        )
        if id(source) not in self._reported:
            self._reported.add(id(source))
            self._report_fields(source)

    def _report_fields(self, source: Entry) -> None:
        """Note the fields of the line that are dropped."""
        body = source.body
        if not isinstance(body, ChainBody):
            return
        if body.parent_uuid:
            self._lost(LossCode.PARENTS, "which entry it follows", source)
        if body.cwd or body.git_branch or body.version or body.entrypoint:
            self._lost(LossCode.CONTEXT, "directory, branch, client version", source)
        if isinstance(body, User):
            self._report_user(body, source)
        elif isinstance(body, Assistant):
            self._report_assistant(body, source)

    def _report_user(self, body: User, source: Entry) -> None:
        if body.is_meta or body.is_compact_summary or body.is_visible_in_transcript_only:
            self._lost(LossCode.FLAGS, "that the client said it, not the user", source)
        if not isinstance(body.tool_use_result, msgspec.UnsetType):
            self._lost(LossCode.TOOL_USE_RESULT, "a result's rich form", source)

    def _report_assistant(self, body: Assistant, source: Entry) -> None:
        if body.message.id or body.request_id:
            self._lost(LossCode.RESPONSE_IDS, "ids of a response", source)
        if body.is_api_error_message:
            self._lost(LossCode.FLAGS, "that it is an error of the API, not an answer", source)
        if body.cost_usd is not None or body.duration_ms is not None:
            self._lost(LossCode.RECORDED_COST, "cost or duration noted by the client", source)

    def _lost(self, code: LossCode, what: str, source: Entry) -> None:
        self._losses.add(code, what, source.offset)


def _no_place_for(block: Block) -> tuple[LossCode, str]:
    for kinds, code, what in _NO_PLACE_FOR:
        if isinstance(block, kinds):
            return code, what
    return LossCode.SERVER_TOOL, f"{block.type} block"


def _report_branches(items: Sequence[Entry | Damage], losses: LossCollector) -> None:
    """Note entries that share their parent with others. Parallel results are not branches."""
    children: dict[str, set[str]] = {}
    for item in items:
        if not isinstance(item, Entry) or not item.uuid or not item.parent_uuid or _is_result(item):
            continue
        siblings = children.setdefault(item.parent_uuid, set())
        siblings.add(item.uuid)
        if len(siblings) > 1:
            losses.add(LossCode.BRANCHES, "entry on another branch", item.offset)


def _is_result(entry: Entry) -> bool:
    blocks = entry.message.blocks if entry.message else []
    return any(isinstance(block, ToolResultBlock) for block in blocks)
