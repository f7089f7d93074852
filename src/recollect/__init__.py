"""Keep every coding-agent session: read it losslessly, append to it durably.

    import recollect

    home = recollect.Home()                          # the homes of this machine, read-only
    for message in home.session("@last").conversation().messages[-50:]:
        ...

    store = recollect.Store("logs/")
    with store.create(project="/srv/app") as log:
        log.append(recollect.user("Hello"))          # returns after the sync

    for item in recollect.LogReader(log.path):       # Entry or Damage, never an exception
        ...

Names are imported from their rooms on first use, so that ``import recollect``
costs next to nothing. ``__all__`` is the public interface; what is not in it may
change without notice.
"""

from __future__ import annotations

TYPE_CHECKING = False  # what type checkers take for true; importing typing would cost 10 ms
if TYPE_CHECKING:
    from recollect.errors import (
        Ambiguous as Ambiguous,
    )
    from recollect.errors import (
        AppendFailed as AppendFailed,
    )
    from recollect.errors import (
        Busy as Busy,
    )
    from recollect.errors import (
        DamagedData as DamagedData,
    )
    from recollect.errors import (
        IdConflict as IdConflict,
    )
    from recollect.errors import (
        IllegalTransition as IllegalTransition,
    )
    from recollect.errors import (
        InvalidId as InvalidId,
    )
    from recollect.errors import (
        LogLocked as LogLocked,
    )
    from recollect.errors import (
        LogUnusable as LogUnusable,
    )
    from recollect.errors import (
        NotFound as NotFound,
    )
    from recollect.errors import (
        Outcome as Outcome,
    )
    from recollect.errors import (
        RecollectError as RecollectError,
    )
    from recollect.errors import (
        StorageError as StorageError,
    )
    from recollect.errors import (
        SyncFailed as SyncFailed,
    )
    from recollect.errors import (
        UsageError as UsageError,
    )
    from recollect.model.codec import (
        changed as changed,
    )
    from recollect.model.codec import (
        decode as decode,
    )
    from recollect.model.codec import (
        encode as encode,
    )
    from recollect.model.conversation.conversation import (
        Conversation as Conversation,
    )
    from recollect.model.conversation.conversation import (
        Message as Message,
    )
    from recollect.model.convert import (
        claude_to_flat as claude_to_flat,
    )
    from recollect.model.convert import (
        flat_to_claude as flat_to_claude,
    )
    from recollect.model.cost.money import (
        Spending as Spending,
    )
    from recollect.model.cost.usage import (
        Tokens as Tokens,
    )
    from recollect.model.cost.usage import (
        Usage as Usage,
    )
    from recollect.model.damage import (
        Damage as Damage,
    )
    from recollect.model.damage import (
        DamageCode as DamageCode,
    )
    from recollect.model.damage import (
        Limits as Limits,
    )
    from recollect.model.damage import (
        Line as Line,
    )
    from recollect.model.damage import (
        Notice as Notice,
    )
    from recollect.model.damage import (
        PendingTail as PendingTail,
    )
    from recollect.model.draft import (
        Draft as Draft,
    )
    from recollect.model.draft import (
        assistant as assistant,
    )
    from recollect.model.draft import (
        custom_title as custom_title,
    )
    from recollect.model.draft import (
        image as image,
    )
    from recollect.model.draft import (
        metadata as metadata,
    )
    from recollect.model.draft import (
        system as system,
    )
    from recollect.model.draft import (
        tag as tag,
    )
    from recollect.model.draft import (
        text as text,
    )
    from recollect.model.draft import (
        thinking as thinking,
    )
    from recollect.model.draft import (
        tool_result as tool_result,
    )
    from recollect.model.draft import (
        tool_use as tool_use,
    )
    from recollect.model.draft import (
        user as user,
    )
    from recollect.model.entry import (
        Dialect as Dialect,
    )
    from recollect.model.entry import (
        Entry as Entry,
    )
    from recollect.model.entry import (
        Kind as Kind,
    )
    from recollect.model.ids import (
        AgentId as AgentId,
    )
    from recollect.model.ids import (
        EntryId as EntryId,
    )
    from recollect.model.ids import (
        ProjectKey as ProjectKey,
    )
    from recollect.model.ids import (
        SessionId as SessionId,
    )
    from recollect.model.lifecycle import (
        SessionState as SessionState,
    )
    from recollect.services.homes import (
        Home as Home,
    )
    from recollect.services.session import (
        Session as Session,
    )
    from recollect.storage.home import (
        ClaudeHome as ClaudeHome,
    )
    from recollect.storage.logs.aio_log import (
        AsyncLog as AsyncLog,
    )
    from recollect.storage.logs.aio_reader import (
        AsyncLogReader as AsyncLogReader,
    )
    from recollect.storage.logs.conversation_cache import (
        ConversationCache as ConversationCache,
    )
    from recollect.storage.logs.follow import (
        Reset as Reset,
    )
    from recollect.storage.logs.follow import (
        follow as follow,
    )
    from recollect.storage.logs.loader import (
        ConversationLoader as ConversationLoader,
    )
    from recollect.storage.logs.log import (
        Log as Log,
    )
    from recollect.storage.logs.log import (
        SyncPolicy as SyncPolicy,
    )
    from recollect.storage.logs.reader import (
        LogReader as LogReader,
    )
    from recollect.storage.logs.summary import (
        LogSummary as LogSummary,
    )
    from recollect.storage.logs.summary import (
        glance as glance,
    )
    from recollect.storage.store import (
        PlacedDraft as PlacedDraft,
    )
    from recollect.storage.store import (
        SessionLog as SessionLog,
    )
    from recollect.storage.store import (
        Store as Store,
    )
    from recollect.storage.store import (
        StoredSession as StoredSession,
    )
    from recollect.storage.store import (
        TrashedSession as TrashedSession,
    )
    from recollect.system.locations import (
        claude_homes as claude_homes,
    )

__version__ = "0.1.0"

_ROOMS = {
    "recollect.errors": (
        "Ambiguous AppendFailed Busy DamagedData IdConflict IllegalTransition InvalidId LogLocked LogUnusable NotFound Outcome RecollectError StorageError SyncFailed UsageError"
    ),
    "recollect.model.codec": "changed decode encode",
    "recollect.model.convert": "claude_to_flat flat_to_claude",
    "recollect.model.damage": "Damage DamageCode Limits Line Notice PendingTail",
    "recollect.model.draft": "Draft assistant custom_title image metadata system tag text thinking tool_result tool_use user",
    "recollect.model.entry": "Dialect Entry Kind",
    "recollect.model.ids": "AgentId EntryId ProjectKey SessionId",
    "recollect.model.lifecycle": "SessionState",
    "recollect.model.cost.money": "Spending",
    "recollect.model.cost.usage": "Tokens Usage",
    "recollect.services.homes": "Home",
    "recollect.services.session": "Session",
    "recollect.model.conversation.conversation": "Conversation Message",
    "recollect.storage.logs.aio_log": "AsyncLog",
    "recollect.storage.logs.aio_reader": "AsyncLogReader",
    "recollect.storage.logs.conversation_cache": "ConversationCache",
    "recollect.storage.logs.follow": "Reset follow",
    "recollect.storage.logs.summary": "LogSummary glance",
    "recollect.storage.home": "ClaudeHome",
    "recollect.storage.logs.loader": "ConversationLoader",
    "recollect.storage.logs.log": "Log SyncPolicy",
    "recollect.system.locations": "claude_homes",
    "recollect.storage.logs.reader": "LogReader",
    "recollect.storage.store": "PlacedDraft SessionLog Store StoredSession TrashedSession",
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names.split()}

_PORCH = ("aio", "execution", "flags", "mcp", "permissions", "provider", "runtime", "sdk")

__all__ = [
    "AgentId",
    "Ambiguous",
    "AppendFailed",
    "AsyncLog",
    "AsyncLogReader",
    "Busy",
    "ClaudeHome",
    "Conversation",
    "ConversationCache",
    "ConversationLoader",
    "Damage",
    "DamageCode",
    "DamagedData",
    "Dialect",
    "Draft",
    "Entry",
    "EntryId",
    "Home",
    "IdConflict",
    "IllegalTransition",
    "InvalidId",
    "Kind",
    "Limits",
    "Line",
    "Log",
    "LogLocked",
    "LogReader",
    "LogSummary",
    "LogUnusable",
    "Message",
    "NotFound",
    "Notice",
    "Outcome",
    "PendingTail",
    "PlacedDraft",
    "ProjectKey",
    "RecollectError",
    "Reset",
    "Session",
    "SessionId",
    "SessionLog",
    "SessionState",
    "Spending",
    "StorageError",
    "Store",
    "StoredSession",
    "SyncFailed",
    "SyncPolicy",
    "Tokens",
    "TrashedSession",
    "Usage",
    "UsageError",
    "__version__",
    "assistant",
    "changed",
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
    "system",
    "tag",
    "text",
    "thinking",
    "tool_result",
    "tool_use",
    "user",
]


def __getattr__(name: str) -> object:
    """Import a public name from its room on first use (PEP 562)."""
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
