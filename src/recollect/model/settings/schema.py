"""The type of every setting, for a client that ignores a whole file because of one wrong value.

Client 2.1.325 reads a settings file all or nothing: with one known key of the wrong type the whole file is
ignored, deny rules included (reported on stderr, which is not visible in print mode). A malformed rule alone
is skipped, unknown keys are accepted, and a few keys with a wrong value are dropped alone (``LENIENT``). All
of this was tested with the real client (``tests/oracle/test_settings.py``); the table lists facts about it
and decides nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

Path = tuple[str | int, ...]
MODES = ("default", "manual", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions")
"""Permission modes; ``manual`` means ``default``."""


class SchemaFault(NamedTuple):
    """A value the client does not accept: its path, the expected type, and what it is."""

    path: Path
    expected: str
    found: str

    @property
    def key(self) -> str:
        """The path in text form: ``permissions.deny[2]``."""
        return written_path(self.path)


class ValueType(NamedTuple):
    """A type: its test and its name."""

    accepts: Callable[[object], bool]
    words: str


def written_path(path: Path) -> str:
    """``("permissions", "deny", 2)`` as ``permissions.deny[2]``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def described(value: object) -> str:
    """The type of a value, without quoting it: settings hold secrets."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return "a text"
    return "a list" if isinstance(value, list) else "an object"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int | float) and _is_number(value) and value >= least and value == value // 1


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_hook(value: Mapping[str, object]) -> bool:
    kind = value.get("type")
    if kind not in (*_HOOK_NEEDS, "mcp_tool"):
        return False
    return kind == "mcp_tool" or isinstance(value.get(_HOOK_NEEDS[str(kind)]), str)


def _one_of(*words: str) -> ValueType:
    return ValueType(lambda value: value in words, "one of " + ", ".join(words))


FLAG = ValueType(lambda value: isinstance(value, bool), "true or false")
TEXT = ValueType(lambda value: isinstance(value, str), "a text")
TEXTS = ValueType(_is_texts, "a list of texts")
OBJECT = ValueType(lambda value: isinstance(value, dict), "an object")
LIST = ValueType(lambda value: isinstance(value, list), "a list")
COUNT = ValueType(lambda value: _is_whole(value, 1), "a whole number of at least 1")
COUNT_OR_0 = ValueType(lambda value: _is_whole(value, 0), "a whole number of at least 0")
SHARE = ValueType(
    lambda value: isinstance(value, int | float) and _is_number(value) and 0 < value <= 1,
    "a number above 0 and up to 1",
)
TEXT_OR_TEXTS = ValueType(
    lambda value: isinstance(value, str) or _is_texts(value), "a text or a list of texts"
)
FLAG_OR_OBJECT = ValueType(lambda value: isinstance(value, bool | dict), "true, false or an object")
COMMAND = ValueType(
    lambda value: (
        isinstance(value, dict) and value.get("type") == "command" and isinstance(value.get("command"), str)
    ),
    'an object {"type": "command", "command": text}',
)
_HOOK_NEEDS = {"command": "command", "prompt": "prompt", "agent": "prompt", "http": "url"}
HOOK = ValueType(
    lambda value: isinstance(value, dict) and _is_hook(value),
    'an object such as {"type": "command", "command": text}',
)
MODE = _one_of(*MODES)
DISABLE = _one_of("disable")

_FLAGS = """
agentPushNotifEnabled allowAllClaudeAiMcps allowClaudeInChromeWithManagedMcp allowManagedHooksOnly
allowManagedMcpServersOnly allowManagedPermissionRulesOnly alwaysThinkingEnabled autoCompactEnabled
autoContinueAtUsageLimit autoDreamEnabled autoMemoryEnabled autoScrollEnabled autoUploadSessions awaySummaryEnabled
bashEditDiffEnabled channelsEnabled clawdFileProgressEnabled disableAgentView disableAllHooks disableArtifact
disableBundledSkills disableClaudeAiConnectors disableCommandPluginSources disableRemoteControl disableReplyCheck
disableSideloadFlags disableSkillShellExecution disableWindowsBashCommandSplit disableWorkflows doneMeansMerged
emojiCompletionEnabled enableAllProjectMcpServers enableArtifact enableWorkflows enforceAvailableModels fastMode
fastModePerSessionOptIn fileCheckpointingEnabled forceRemoteSettingsRefresh idleCompaction includeCoAuthoredBy
includeGitInstructions inputNeededNotifEnabled isolatePeerMachines precomputeCompactionEnabled prefersReducedMotion
promptSuggestionEnabled remoteControlAtStartup respectGitignore respondToBashCommands responseComparisonEnabled
showClearContextOnPlanAccept showMessageTimestamps showThinkingSummaries showTurnDuration
skipDangerousModePermissionPrompt skipWebFetchPreflight skipWorkflowUsageWarning spinnerTipsEnabled
switchModelsOnFlag syncClaudeAiPlugins syncClaudeAiSkills syntaxHighlightingDisabled terminalProgressBarEnabled
terminalTitleFromRename todoFeatureEnabled totalTokensReminderAfterUserTurn verbose wheelScrollAccelerationEnabled
workflowKeywordTriggerEnabled wslInheritsWindowsSettings voiceEnabled axScreenReader skipAutoPermissionPrompt
"""
_TEXT_KEYS = """
advisorModel agent apiKeyHelper attributionProject autoMemoryDirectory awsAuthRefresh awsCredentialExport claudeMd
gcpAuthRefresh language minimumVersion model otelHeadersHelper outputStyle plansDirectory pluginTrustMessage
prUrlTemplate processWrapper proxyAuthHelper requiredMaximumVersion requiredMinimumVersion timeFormat timeZone
"""
_OBJECTS = """
autoMode breakReminder enabledPlugins env modelOverrides permissions pluginConfigs quietHours remote remoteTools sandbox
skillOverrides spinnerVerbs voice worktree
"""
_LISTS = "allowedChannelPlugins allowedMarketplaces blockedMarketplaces sshConfigs strictKnownMarketplaces"
_TEXT_LISTS = """
allowedHttpHookUrls availableModels claudeMdExcludes companyAnnouncements disabledMcpjsonServers
enabledMcpjsonServers fallbackModel httpHookAllowedEnvVars pluginSuggestionMarketplaces
"""

SCHEMA: Mapping[str, ValueType] = {
    **dict.fromkeys(_FLAGS.split(), FLAG),
    **dict.fromkeys(_TEXT_KEYS.split(), TEXT),
    **dict.fromkeys(_TEXT_LISTS.split(), TEXTS),
    **dict.fromkeys(_OBJECTS.split(), OBJECT),
    **dict.fromkeys(_LISTS.split(), LIST),
    "cleanupPeriodDays": COUNT,
    "desktopSessionCleanupPeriodDays": COUNT_OR_0,
    "skillListingMaxDescChars": COUNT,
    "skillListingBudgetFraction": SHARE,
    "totalTokensReminderBudget": COUNT,
    "statusLine": COMMAND,
    "fileSuggestion": COMMAND,
    "attribution": FLAG_OR_OBJECT,
    "forceLoginOrgUUID": TEXT_OR_TEXTS,
    "disableAutoMode": DISABLE,
    "autoUpdatesChannel": _one_of("latest", "stable", "rc"),
    "daemonColdStart": _one_of("transient", "ask"),
    "defaultShell": _one_of("bash", "powershell"),
    "feedbackDrafts": _one_of("notify", "quiet", "off"),
    "managedSourcesBehavior": _one_of("first-wins", "merge"),
    "parentSettingsBehavior": _one_of("first-wins", "merge"),
    "tui": _one_of("default", "fullscreen"),
    "workflowSizeGuideline": _one_of("unrestricted", "small", "medium", "large"),
}
LENIENT: Mapping[str, ValueType] = {
    "hooks": OBJECT,
    "deniedModels": TEXTS,
    "availableModelsMatch": _one_of("prefix", "exact"),
    "allowedMcpServers": LIST,
    "deniedMcpServers": LIST,
    "managedMcpServers": OBJECT,
    "extraKnownMarketplaces": OBJECT,
    "theme": TEXT,
    "effortLevel": _one_of("low", "medium", "high", "xhigh"),
    "viewMode": _one_of("default", "verbose", "focus"),
    "maxProseWidth": COUNT,
    "bashOutputMaxChars": COUNT,
    "forceLoginMethod": _one_of("claudeai", "console", "gateway"),
}
"""Keys of which only a wrong value is dropped; the rest of the file counts."""
RULE_LISTS = ("allow", "ask", "deny")
HOOK_EVENTS = [
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PermissionRequest",
    "Notification",
    "UserPromptSubmit",
    "SessionStart",
    "SessionEnd",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "Setup",
]
"""Events whose hooks the client checks; for any other name it drops only that entry."""
PERMISSIONS: Mapping[str, ValueType] = {
    **dict.fromkeys(RULE_LISTS, LIST),
    "defaultMode": MODE,
    "additionalDirectories": TEXTS,
    "disableBypassPermissionsMode": DISABLE,
    "blockReadsOutsideWorkingDirectories": FLAG,
}


def faults(document: object) -> Iterator[SchemaFault]:
    """Every value for which the client would ignore the whole file, in file order."""
    if not isinstance(document, dict):
        yield SchemaFault((), "an object", described(document))
        return
    for name, value in document.items():
        yield from _fault((name,), value, SCHEMA.get(name))
        if name == "permissions" and isinstance(value, dict):
            for inner, part in value.items():
                yield from _fault((name, inner), part, PERMISSIONS.get(inner))
        elif name == "hooks" and isinstance(value, dict):
            yield from _hook_faults(value)


def dropped(document: object) -> Iterator[SchemaFault]:
    """Values that are dropped alone; the rest of the file counts."""
    if not isinstance(document, dict):
        return
    for name, value in document.items():
        yield from _fault((name,), value, LENIENT.get(name))
    permissions = document.get("permissions")
    for name in RULE_LISTS:
        rules = permissions.get(name) if isinstance(permissions, dict) else None
        for number, rule in enumerate(rules if isinstance(rules, list) else ()):
            yield from _fault(("permissions", name, number), rule, TEXT)


def kind_of(path: Path) -> ValueType | None:
    """The type of a setting by its path; None where the client accepts anything."""
    if path[:1] == ("permissions",) and path[1:] in {(name,) for name in RULE_LISTS}:
        return TEXTS
    if len(path) == 1:
        return SCHEMA.get(str(path[0])) or LENIENT.get(str(path[0]))
    return PERMISSIONS.get(str(path[1])) if len(path) == 2 and path[0] == "permissions" else None


def _hook_faults(hooks: Mapping[str, object]) -> Iterator[SchemaFault]:
    """Each event has a list of matchers, each matcher a list of hooks, each hook a type and its fields."""
    for event in (name for name in hooks if name in HOOK_EVENTS):
        matchers = hooks[event]
        yield from _fault(("hooks", event), matchers, LIST)
        for number, one in enumerate(matchers if isinstance(matchers, list) else ()):
            path: Path = ("hooks", event, number)
            yield from _fault(path, one, OBJECT)
            if isinstance(one, dict):
                yield from _fault((*path, "matcher"), one.get("matcher", ""), TEXT)
                yield from _fault((*path, "hooks"), one.get("hooks"), LIST)
                inner = one.get("hooks")
                for at, hook in enumerate(inner if isinstance(inner, list) else ()):
                    yield from _fault((*path, "hooks", at), hook, HOOK)


def _fault(path: Path, value: object, kind: ValueType | None) -> Iterator[SchemaFault]:
    if kind is None or kind.accepts(value):
        return
    if kind is TEXTS and isinstance(value, list):
        wrong = next(number for number, one in enumerate(value) if not isinstance(one, str))
        yield SchemaFault((*path, wrong), "a text", described(value[wrong]))
        return
    yield SchemaFault(path, kind.words, described(value))
