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

TYPE_CHECKING = False  # true for type checkers; importing typing would cost 10 ms
if TYPE_CHECKING:
    from recollect.errors import (
        Ambiguous,
        AppendFailed,
        Busy,
        DamagedData,
        IdConflict,
        IllegalTransition,
        InvalidId,
        LogLocked,
        LogUnusable,
        MissingExtra,
        NoSandbox,
        NotFound,
        NotPermitted,
        Outcome,
        PluginFailed,
        RecollectError,
        ServerFailed,
        StorageError,
        SyncFailed,
        UsageError,
    )
    from recollect.model.blocks import (
        BashExecutionResultBlock,
        Block,
        CodeExecutionResultBlock,
        DocumentBlock,
        ImageBlock,
        McpToolResultBlock,
        McpToolUseBlock,
        RedactedThinkingBlock,
        ServerToolUseBlock,
        TextBlock,
        TextEditorResultBlock,
        ThinkingBlock,
        ToolReferenceBlock,
        ToolResultBlock,
        ToolUseBlock,
        UnknownBlock,
        WebFetchResultBlock,
        WebSearchResultBlock,
    )
    from recollect.model.codec import changed, decode, encode
    from recollect.model.conversation.conversation import (
        Branch,
        BranchDifference,
        Conversation,
        Message,
        Messages,
    )
    from recollect.model.conversation.graph import Graph
    from recollect.model.conversation.influence import Influence
    from recollect.model.conversation.node import LeafMark, Node
    from recollect.model.conversation.tool_calls import ToolCall, ToolCallStatus
    from recollect.model.convert import claude_to_flat, flat_to_claude
    from recollect.model.convert.loss import Conversion, Loss, LossCode
    from recollect.model.cost.money import Spending
    from recollect.model.cost.report import (
        BillingBlock,
        CostExplanation,
        CostReport,
        CostRow,
        Performance,
        UncertainUsage,
        UnpricedModel,
    )
    from recollect.model.cost.response import PricedResponse
    from recollect.model.cost.usage import CacheCreation, OutputDetails, ServerToolUse, Tokens, Usage
    from recollect.model.damage import Damage, DamageCode, Limits, Line, Notice, PendingTail
    from recollect.model.draft import (
        AssistantDraft,
        Draft,
        MetadataDraft,
        UserDraft,
        assistant,
        custom_title,
        image,
        metadata,
        system,
        tag,
        text,
        thinking,
        tool_result,
        tool_use,
        user,
    )
    from recollect.model.entry import (
        AgentColor,
        AgentName,
        AgentSetting,
        AiTitle,
        ApiMessage,
        ApiRequest,
        ApiRequestBlob,
        ApiRequestShape,
        Assistant,
        AtisLatch,
        Attachment,
        Body,
        BridgeSession,
        ChainBody,
        ClientMode,
        CompactMetadata,
        ContentReplacement,
        ContinuedIn,
        CostState,
        CustomTitle,
        Dialect,
        Entry,
        FileHistoryDelta,
        FileHistoryNote,
        FileHistorySnapshot,
        ForeignRecord,
        ForeignSource,
        ForeignUsage,
        ForkOrigin,
        FrameLink,
        Kind,
        LastPrompt,
        PermissionMode,
        PrLink,
        Progress,
        QueueOperation,
        RawMessage,
        Summary,
        System,
        Tag,
        ToolCallBody,
        ToolResultBody,
        ToolsUsed,
        UnknownBody,
        UnknownShapeBody,
        User,
    )
    from recollect.model.findings import Finding, Severity
    from recollect.model.ids import AgentId, EntryId, ProjectKey, SessionId
    from recollect.model.lifecycle import SessionState
    from recollect.model.project_key import project_key
    from recollect.model.repair.draft import RepairAction
    from recollect.model.search.snippet import Snippet
    from recollect.services.archive.archive import ArchiveFailure
    from recollect.services.check.check import CheckReport, CheckSummary
    from recollect.services.cost.price import performance, price
    from recollect.services.cost.session_sums import SessionSum
    from recollect.services.documents.blame import (
        BlamedLineDocument,
        BlameDocument,
        CommitSessionDocument,
        FileCommitDocument,
        FileLogDocument,
        TouchingSessionDocument,
        WritingDocument,
    )
    from recollect.services.documents.cost.report import CostExplanationDocument, CostRowDocument
    from recollect.services.documents.cost.stats import (
        CacheSavingsDocument,
        PeriodDocument,
        SeenLimitDocument,
        StatAgentsDocument,
        StatBlocksDocument,
        StatDayDocument,
        StatGroupDocument,
        StatHourDocument,
        StatsDocument,
        StatSessionDocument,
        StatToolDocument,
        TopSessionsDocument,
        UncertaintyDocument,
    )
    from recollect.services.history import (
        CommandHistory,
        EnvironmentFile,
        PlanDocument,
        TypedCommand,
    )
    from recollect.services.homes import Home
    from recollect.services.library.actions import (
        ArchivedCopy,
        ArchiveReport,
        CleanupReport,
        MigrationReport,
        SessionRepair,
        archive,
        check,
        repair,
        scan,
    )
    from recollect.services.library.plugins import Exporter, SessionCheck
    from recollect.services.library.walk import Walk
    from recollect.services.list import ListedSession
    from recollect.services.recall.recall import RecalledSession, RecallResult
    from recollect.services.rewind import RewindReport, RewoundFile
    from recollect.services.search.search import SearchHit, SearchResult, SessionHits
    from recollect.services.secrets.place_results import SecretFinding
    from recollect.services.secrets.scan import SecretScan
    from recollect.services.session import ActiveBranch, AgentCost, Compaction, Session, SessionCounts
    from recollect.services.todos import SessionTodo, SessionTodoList, TodoMove
    from recollect.services.watch import ActiveBlock, WatchedSession, WatchSnapshot
    from recollect.storage.home import (
        AgentFile,
        ClaudeHome,
        HomeTotals,
        LatestSession,
        LogContent,
        ProjectDir,
        SessionFile,
        TaskFile,
        TodoFile,
    )
    from recollect.storage.logs.aio_log import AsyncLog
    from recollect.storage.logs.aio_reader import AsyncLogReader
    from recollect.storage.logs.batch import AppendJob, AppendResult
    from recollect.storage.logs.conversation_cache import CacheEviction, CacheStatistics, ConversationCache
    from recollect.storage.logs.follow import Reset, follow
    from recollect.storage.logs.loader import ConversationLoader
    from recollect.storage.logs.log import Log, SyncPolicy
    from recollect.storage.logs.log_graph import LogGraph
    from recollect.storage.logs.reader import LogPage, LogReader
    from recollect.storage.logs.summary import LogSummary, glance
    from recollect.storage.prompt_history import Paste, Prompt
    from recollect.storage.store import (
        LogContext,
        PlacedDraft,
        SessionLog,
        Store,
        StoredSession,
        TrashedSession,
    )
    from recollect.storage.store_layout import StoreLayout
    from recollect.system.locations import HomeRoot, claude_homes, sanitize_path
    from recollect.system.peek import ReadProblem

__version__ = "0.1.0"

_ROOMS = {
    "recollect.errors": (
        "Ambiguous AppendFailed Busy DamagedData IdConflict IllegalTransition InvalidId "
        "LogLocked LogUnusable MissingExtra NoSandbox NotFound NotPermitted Outcome "
        "PluginFailed RecollectError ServerFailed StorageError SyncFailed UsageError"
    ),
    "recollect.model.blocks": (
        "BashExecutionResultBlock Block CodeExecutionResultBlock DocumentBlock ImageBlock "
        "McpToolResultBlock McpToolUseBlock RedactedThinkingBlock ServerToolUseBlock TextBlock "
        "TextEditorResultBlock ThinkingBlock ToolReferenceBlock ToolResultBlock ToolUseBlock "
        "UnknownBlock WebFetchResultBlock WebSearchResultBlock"
    ),
    "recollect.model.codec": "changed decode encode",
    "recollect.model.conversation.conversation": "Branch BranchDifference Conversation Message Messages",
    "recollect.model.conversation.graph": "Graph",
    "recollect.model.conversation.influence": "Influence",
    "recollect.model.conversation.node": "LeafMark Node",
    "recollect.model.conversation.tool_calls": "ToolCall ToolCallStatus",
    "recollect.model.convert": "claude_to_flat flat_to_claude",
    "recollect.model.convert.loss": "Conversion Loss LossCode",
    "recollect.model.cost.money": "Spending",
    "recollect.model.cost.report": (
        "BillingBlock CostExplanation CostReport CostRow Performance UncertainUsage UnpricedModel"
    ),
    "recollect.model.cost.response": "PricedResponse",
    "recollect.model.cost.usage": "CacheCreation OutputDetails ServerToolUse Tokens Usage",
    "recollect.model.damage": "Damage DamageCode Limits Line Notice PendingTail",
    "recollect.model.draft": (
        "AssistantDraft Draft MetadataDraft UserDraft assistant custom_title image metadata "
        "system tag text thinking tool_result tool_use user"
    ),
    "recollect.model.entry": (
        "AgentColor AgentName AgentSetting AiTitle ApiMessage ApiRequest ApiRequestBlob "
        "ApiRequestShape Assistant AtisLatch Attachment Body BridgeSession ChainBody ClientMode "
        "CompactMetadata ContentReplacement ContinuedIn CostState CustomTitle Dialect Entry "
        "FileHistoryDelta FileHistoryNote FileHistorySnapshot ForeignRecord ForeignSource ForeignUsage ForkOrigin FrameLink Kind "
        "LastPrompt PermissionMode PrLink Progress QueueOperation RawMessage Summary System "
        "Tag ToolCallBody ToolResultBody ToolsUsed UnknownBody UnknownShapeBody User"
    ),
    "recollect.model.findings": "Finding Severity",
    "recollect.model.ids": "AgentId EntryId ProjectKey SessionId",
    "recollect.model.lifecycle": "SessionState",
    "recollect.model.project_key": "project_key",
    "recollect.model.repair.draft": "RepairAction",
    "recollect.model.search.snippet": "Snippet",
    "recollect.services.library.actions": (
        "ArchiveReport ArchivedCopy CleanupReport MigrationReport SessionRepair archive check repair scan"
    ),
    "recollect.services.archive.archive": "ArchiveFailure",
    "recollect.services.check.check": "CheckReport CheckSummary",
    "recollect.services.history": "CommandHistory EnvironmentFile PlanDocument TypedCommand",
    "recollect.services.cost.price": "performance price",
    "recollect.services.cost.session_sums": "SessionSum",
    "recollect.services.documents.blame": (
        "BlameDocument BlamedLineDocument CommitSessionDocument FileCommitDocument FileLogDocument "
        "TouchingSessionDocument WritingDocument"
    ),
    "recollect.services.documents.cost.report": "CostExplanationDocument CostRowDocument",
    "recollect.services.documents.cost.stats": (
        "CacheSavingsDocument PeriodDocument SeenLimitDocument StatAgentsDocument StatBlocksDocument "
        "StatDayDocument StatGroupDocument StatHourDocument StatSessionDocument "
        "StatToolDocument StatsDocument TopSessionsDocument UncertaintyDocument"
    ),
    "recollect.services.homes": "Home",
    "recollect.services.list": "ListedSession",
    "recollect.services.library.plugins": "Exporter SessionCheck",
    "recollect.services.recall.recall": "RecallResult RecalledSession",
    "recollect.services.rewind": "RewindReport RewoundFile",
    "recollect.services.search.search": "SearchHit SearchResult SessionHits",
    "recollect.services.secrets.place_results": "SecretFinding",
    "recollect.services.secrets.scan": "SecretScan",
    "recollect.services.session": "ActiveBranch AgentCost Compaction Session SessionCounts",
    "recollect.services.todos": "SessionTodo SessionTodoList TodoMove",
    "recollect.services.library.walk": "Walk",
    "recollect.services.watch": "ActiveBlock WatchSnapshot WatchedSession",
    "recollect.storage.home": (
        "AgentFile ClaudeHome HomeTotals LatestSession LogContent ProjectDir SessionFile TaskFile TodoFile"
    ),
    "recollect.storage.logs.aio_log": "AsyncLog",
    "recollect.storage.logs.aio_reader": "AsyncLogReader",
    "recollect.storage.logs.batch": "AppendJob AppendResult",
    "recollect.storage.logs.conversation_cache": "CacheEviction CacheStatistics ConversationCache",
    "recollect.storage.logs.follow": "Reset follow",
    "recollect.storage.logs.loader": "ConversationLoader",
    "recollect.storage.logs.log": "Log SyncPolicy",
    "recollect.storage.logs.log_graph": "LogGraph",
    "recollect.storage.logs.reader": "LogPage LogReader",
    "recollect.storage.logs.summary": "LogSummary glance",
    "recollect.storage.prompt_history": "Paste Prompt",
    "recollect.storage.store": "LogContext PlacedDraft SessionLog Store StoredSession TrashedSession",
    "recollect.storage.store_layout": "StoreLayout",
    "recollect.system.locations": "HomeRoot claude_homes sanitize_path",
    "recollect.system.peek": "ReadProblem",
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names.split()}

_PORCH = ("aio", "execution", "flags", "mcp", "permissions", "provider", "runtime", "sdk")

__all__ = [
    "ActiveBlock",
    "ActiveBranch",
    "AgentColor",
    "AgentCost",
    "AgentFile",
    "AgentId",
    "AgentName",
    "AgentSetting",
    "AiTitle",
    "Ambiguous",
    "ApiMessage",
    "ApiRequest",
    "ApiRequestBlob",
    "ApiRequestShape",
    "AppendFailed",
    "AppendJob",
    "AppendResult",
    "ArchiveFailure",
    "ArchiveReport",
    "ArchivedCopy",
    "Assistant",
    "AssistantDraft",
    "AsyncLog",
    "AsyncLogReader",
    "AtisLatch",
    "Attachment",
    "BashExecutionResultBlock",
    "BillingBlock",
    "BlameDocument",
    "BlamedLineDocument",
    "Block",
    "Body",
    "Branch",
    "BranchDifference",
    "BridgeSession",
    "Busy",
    "CacheCreation",
    "CacheEviction",
    "CacheSavingsDocument",
    "CacheStatistics",
    "ChainBody",
    "CheckReport",
    "CheckSummary",
    "ClaudeHome",
    "CleanupReport",
    "ClientMode",
    "CodeExecutionResultBlock",
    "CommandHistory",
    "CommitSessionDocument",
    "CompactMetadata",
    "Compaction",
    "ContentReplacement",
    "ContinuedIn",
    "Conversation",
    "ConversationCache",
    "ConversationLoader",
    "Conversion",
    "CostExplanation",
    "CostExplanationDocument",
    "CostReport",
    "CostRow",
    "CostRowDocument",
    "CostState",
    "CustomTitle",
    "Damage",
    "DamageCode",
    "DamagedData",
    "Dialect",
    "DocumentBlock",
    "Draft",
    "Entry",
    "EntryId",
    "EnvironmentFile",
    "Exporter",
    "FileCommitDocument",
    "FileHistoryDelta",
    "FileHistoryNote",
    "FileHistorySnapshot",
    "FileLogDocument",
    "Finding",
    "ForeignRecord",
    "ForeignSource",
    "ForeignUsage",
    "ForkOrigin",
    "FrameLink",
    "Graph",
    "Home",
    "HomeRoot",
    "HomeTotals",
    "IdConflict",
    "IllegalTransition",
    "ImageBlock",
    "Influence",
    "InvalidId",
    "Kind",
    "LastPrompt",
    "LatestSession",
    "LeafMark",
    "Limits",
    "Line",
    "ListedSession",
    "Log",
    "LogContent",
    "LogContext",
    "LogGraph",
    "LogLocked",
    "LogPage",
    "LogReader",
    "LogSummary",
    "LogUnusable",
    "Loss",
    "LossCode",
    "McpToolResultBlock",
    "McpToolUseBlock",
    "Message",
    "Messages",
    "MetadataDraft",
    "MigrationReport",
    "MissingExtra",
    "NoSandbox",
    "Node",
    "NotFound",
    "NotPermitted",
    "Notice",
    "Outcome",
    "OutputDetails",
    "Paste",
    "PendingTail",
    "Performance",
    "PeriodDocument",
    "PermissionMode",
    "PlacedDraft",
    "PlanDocument",
    "PluginFailed",
    "PrLink",
    "PricedResponse",
    "Progress",
    "ProjectDir",
    "ProjectKey",
    "Prompt",
    "QueueOperation",
    "RawMessage",
    "ReadProblem",
    "RecallResult",
    "RecalledSession",
    "RecollectError",
    "RedactedThinkingBlock",
    "RepairAction",
    "Reset",
    "RewindReport",
    "RewoundFile",
    "SearchHit",
    "SearchResult",
    "SecretFinding",
    "SecretScan",
    "SeenLimitDocument",
    "ServerFailed",
    "ServerToolUse",
    "ServerToolUseBlock",
    "Session",
    "SessionCheck",
    "SessionCounts",
    "SessionFile",
    "SessionHits",
    "SessionId",
    "SessionLog",
    "SessionRepair",
    "SessionState",
    "SessionSum",
    "SessionTodo",
    "SessionTodoList",
    "Severity",
    "Snippet",
    "Spending",
    "StatAgentsDocument",
    "StatBlocksDocument",
    "StatDayDocument",
    "StatGroupDocument",
    "StatHourDocument",
    "StatSessionDocument",
    "StatToolDocument",
    "StatsDocument",
    "StorageError",
    "Store",
    "StoreLayout",
    "StoredSession",
    "Summary",
    "SyncFailed",
    "SyncPolicy",
    "System",
    "Tag",
    "TaskFile",
    "TextBlock",
    "TextEditorResultBlock",
    "ThinkingBlock",
    "TodoFile",
    "TodoMove",
    "Tokens",
    "ToolCall",
    "ToolCallBody",
    "ToolCallStatus",
    "ToolReferenceBlock",
    "ToolResultBlock",
    "ToolResultBody",
    "ToolUseBlock",
    "ToolsUsed",
    "TopSessionsDocument",
    "TouchingSessionDocument",
    "TrashedSession",
    "TypedCommand",
    "UncertainUsage",
    "UncertaintyDocument",
    "UnknownBlock",
    "UnknownBody",
    "UnknownShapeBody",
    "UnpricedModel",
    "Usage",
    "UsageError",
    "User",
    "UserDraft",
    "Walk",
    "WatchSnapshot",
    "WatchedSession",
    "WebFetchResultBlock",
    "WebSearchResultBlock",
    "WritingDocument",
    "__version__",
    "archive",
    "assistant",
    "changed",
    "check",
    "claude_homes",
    "claude_to_flat",
    "custom_title",
    "decode",
    "encode",
    "flat_to_claude",
    "follow",
    "glance",
    "image",
    "metadata",
    "performance",
    "price",
    "project_key",
    "repair",
    "sanitize_path",
    "scan",
    "system",
    "tag",
    "text",
    "thinking",
    "tool_result",
    "tool_use",
    "user",
]


def __getattr__(name: str) -> object:
    """Import a public name on first use (PEP 562)."""
    if name in _PORCH:
        import importlib

        return importlib.import_module(f"recollect.{name}")
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'recollect' has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(_ROOM_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
