"""Read coding-agent sessions without loss, and append to them durably.

    import recollect

    home = recollect.Home()                          # the homes of this machine, read-only
    for message in home.session("@last").conversation().messages[-50:]:
        ...

    store = recollect.Store("logs/")
    with store.create(project="/srv/app") as log:
        log.append(recollect.user("Hello"))          # returns after the sync

    for item in recollect.LogReader(log.path):       # Entry or Damage, never an exception
        ...

Names are imported on first use, so that ``import recollect`` is fast. ``__all__`` is the public
interface; everything else may change without notice.
"""

from __future__ import annotations

from recollect.version import __version__ as __version__

# Where each public name is. Type checkers read ``__init__.pyi``, which `make docs` writes from this table.
_ROOMS = {
    "recollect.errors": (
        "Ambiguous AppendFailed Busy DamagedData IdConflict IllegalTransition InvalidId LogLocked "
        "LogUnusable MissingExtra NoSandbox NotFound NotPermitted Outcome RecollectError "
        "ServerFailed StorageError SyncFailed UsageError"
    ),
    "recollect.model.lines.blocks": (
        "Block CacheCreation DocumentBlock "
        "ImageBlock McpToolUseBlock OutputDetails RedactedThinkingBlock "
        "ServerResultBlock ServerToolUse ServerToolUseBlock TextBlock ThinkingBlock Tokens "
        "ToolReferenceBlock ToolResultBlock ToolUseBlock UnknownBlock Usage "
    ),
    "recollect.model.lines.codec": "changed decode encode",
    "recollect.model.conversation.conversation": (
        "Branch BranchDifference Conversation Influence Message Messages Seam Story"
    ),
    "recollect.model.conversation.graph": "Graph LeafMark Node",
    "recollect.model.conversation.tool_calls": "ToolCall ToolCallStatus",
    "recollect.model.convert": "claude_to_flat flat_to_claude",
    "recollect.model.convert.turns": "Conversion Loss LossCode",
    "recollect.model.cost.money": "PricedResponse Spending Usd",
    "recollect.model.cost.report": ("CostExplanation CostReport CostRow UncertainUsage UnpricedModel"),
    "recollect.model.lines.damage": "Damage DamageCode Limits Line Notice PendingTail",
    "recollect.model.lines.draft": (
        "AssistantDraft Draft MetadataDraft UserDraft assistant custom_title image metadata "
        "system tag text thinking tool_result tool_use user"
    ),
    "recollect.model.lines.entry": (
        "AiTitle ApiMessage Assistant Attachment Body ChainBody "
        "CustomTitle Dialect Entry FileHistoryDelta "
        "FileHistoryNote FileHistorySnapshot Kind Metadata "
        "Progress RawMessage Summary System Tag ToolCallBody ToolResultBody "
        "UnknownBody UnknownShapeBody User"
    ),
    "recollect.model.checks.rules": "Finding Severity",
    "recollect.model.lines.ids": "AgentId EntryId ProjectKey SessionId",
    "recollect.model.lifecycle": "SessionState",
    "recollect.model.project_key": "project_key",
    "recollect.model.repair.draft": "RepairAction SetAsideBytes",
    "recollect.model.session": "SessionSummary",
    "recollect.model.text.snippet": "Snippet",
    "recollect.change.actions": "ArchiveReport Home archive check repair scan",
    "recollect.change.keeping": "CleanupDocument OldSession",
    "recollect.change.migration": "SessionMigration StepReport",
    "recollect.change.repair": "RepairBytes SessionRepair",
    "recollect.change.undo": "RequestDocument",
    "recollect.model.repair.plan": "RepairProof",
    "recollect.store.archive.archive": "ArchiveResult",
    "recollect.store.archive.manifest": "ArchivedFile Manifest",
    "recollect.store.archive.objects": "StoredObject",
    "recollect.store.changes.plan": "Step",
    "recollect.ask.archive": "ArchiveFailure",
    "recollect.ask.doctor.check": "CheckReport CheckSummary SessionCheck",
    "recollect.ask.history": "CommandHistory EnvironmentFile PlanDocument TypedCommand",
    "recollect.ask.cost.price": "Performance performance price",
    "recollect.ask.blame.blame": "Blame BlamedLine FileWriting",
    "recollect.ask.blame.log": "CommitSessionDocument FileCommitDocument FileLogDocument TouchingSessionDocument",
    "recollect.ask.budget.budget": "RateLimitDocument",
    "recollect.ask.report.stats": (
        "CacheSavingsDocument PeriodDocument StatAgentsDocument "
        "StatBlocksDocument StatDayDocument StatGroupDocument StatHourDocument "
        "StatSessionDocument StatToolDocument StatsDocument TopSessionsDocument "
        "UncertaintyDocument"
    ),
    "recollect.ask.search.recall": "RecallResult",
    "recollect.change.rewind": "RewindReport RewoundFile",
    "recollect.ask.search.hits": "SearchHit SearchResult SessionHits",
    "recollect.ask.secrets.scan": "SecretFinding SecretScan",
    "recollect.ask.sessions.session": "ActiveBranch Compaction Session SessionCounts",
    "recollect.ask.todos": "SessionTodo SessionTodoList TodoMove",
    "recollect.ask.tables": "Walk",
    "recollect.ask.watch": "ActiveBlock WatchSnapshot WatchedSession",
    "recollect.store.home": (
        "AgentFile ClaudeHome LatestSession LogContent ProjectDir SessionFile TaskFile TodoFile"
    ),
    "recollect.store.logs.aio_log": "AsyncLog",
    "recollect.store.logs.batch": "AppendJob AppendResult",
    "recollect.store.logs.conversation_cache": "CacheStatistics ConversationCache LogGraph",
    "recollect.store.logs.follow": "Reset follow",
    "recollect.store.logs.log": "Log",
    "recollect.store.logs.reader": "LogReader",
    "recollect.store.logs.summary": "ConversationLoader LogSummary glance",
    "recollect.store.prompt_history": "Paste Prompt",
    "recollect.store.store": ("LogContext PlacedDraft SessionLog Store StoredSession TrashedSession"),
    "recollect.store.store_layout": "StoreLayout",
    "recollect.system.locations": "HomeRoot claude_homes sanitize_path",
    "recollect.system.peek": "ReadProblem",
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names.split()}

_PORCH = ("aio", "flags", "provider", "sdk")

__all__ = sorted([*_ROOM_OF, "__version__"])  # noqa: PLE0605 - a list of names


def __getattr__(name: str) -> object:
    """Import a public name on first use (PEP 562)."""
    if name not in _PORCH and name not in _ROOM_OF:
        raise AttributeError(f"module 'recollect' has no attribute {name!r}")
    import importlib

    if name in _PORCH:
        return importlib.import_module(f"recollect.{name}")
    value: object = getattr(importlib.import_module(_ROOM_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
