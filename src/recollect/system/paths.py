"""Where things are on this machine, according to the environment, as plain text.

The Claude homes are one or several directories that clients write and we read. Our own data, cache and
configuration are in the XDG directories or all under ``$RECOLLECT_DATA``, never inside a Claude home.
Nothing is created here.

The status line loads this module at every turn, so it imports only ``os``; ``system.locations`` gives
the same answers as ``Path`` objects.
"""

# pathlib is what this module exists to avoid.
# ruff: noqa: PTH109, PTH110, PTH111, PTH112, PTH117, PTH118, PTH206, PTH207, PTH208, PTH123

from __future__ import annotations

import os

TYPE_CHECKING = False  # see recollect/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

OUR_NAME = "recollect"


def named_homes(environ: Mapping[str, str]) -> list[str]:
    """The directories in ``$CLAUDE_CONFIG_DIR``, existing or not, separated by commas."""
    value = environ.get("CLAUDE_CONFIG_DIR", "")
    # The client takes the whole value as one directory, so a comma in an existing name is not a separator.
    if value.strip() and os.path.isdir(absolute(value, environ)):
        return [absolute(value, environ)]
    return [absolute(part.strip(), environ) for part in value.split(",") if part.strip()]


def usual_homes(environ: Mapping[str, str]) -> dict[str, str]:
    """The default homes of clients, existing or not; each with a label."""
    user = user_home(environ)
    return {
        os.path.join(user, ".claude"): "~/.claude",
        os.path.join(_xdg(environ, "XDG_CONFIG_HOME", ".config"), "claude"): "$XDG_CONFIG_HOME/claude",
        os.path.join(user, ".config", "claude"): "~/.config/claude",
    }


def existing_homes(environ: Mapping[str, str]) -> list[str]:
    """The existing Claude homes of this user; two names of one directory are one home."""
    return existing(named_homes(environ) or usual_homes(environ))


# The form of Claude's ids, in lower case; most other agents use it in any.
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


class Agent:
    """Another agent: where its home is, what marks it, how its client goes on with a session.

    ``variable`` names the home, or the directory above ``below``; else it is at ``usual`` below the user's own
    directory ("@": the XDG data directory). Of the names in ``marks`` a home has at least one; "/" before one stands for its own name. ``resume`` is the
    client's command, before the id of a session; ``ids`` is the form of those that the client gives, as a pattern.
    ``store`` is the variable that leads to a database elsewhere, ``plan`` the tool that writes a todo list and its argument.
    ``left_out`` is what the client keeps beside the records of a session, and recollect does not. ``like`` is another agent whose module
    reads these files too, or that module. ``resume`` is empty where no command goes on with a session.
    ``also`` are more such homes, as patterns below the user's directory. ``registry`` is a file of the usual home: it lists projects, each with a home of its own.
    """

    def __init__(
        self,
        usual: tuple[str, ...],
        marks: tuple[str, ...],
        resume: tuple[str, ...],
        *,
        variable: str = "",
        below: tuple[str, ...] = (),
        ids: str = f"(?i:{_UUID})",
        store: str = "",
        plan: tuple[str, str] = ("", ""),
        left_out: str = "",
        like: str = "",
        also: tuple[str, ...] = (),
        registry: str = "",
    ) -> None:
        self.usual, self.marks, self.resume = usual, marks, resume
        self.variable, self.below, self.ids, self.store = variable, below, ids, store
        self.plan, self.left_out, self.like = plan, left_out, like
        self.also, self.registry = also, registry

    @property
    def place(self) -> tuple[str, tuple[str, ...]]:
        """The variable that leads a client elsewhere, and what its home is below that."""
        return ("XDG_DATA_HOME", self.usual[1:]) if self.usual[0] == "@" else (self.variable, self.below)


# Where editors of this kind keep what their extensions store.
_EDITORS = (
    *(".config/*", "Library/Application Support/*", "AppData/Roaming/*"),
    *(
        ".vscode-server/data",
        ".vscode-server-insiders/data",
        ".cursor-server/data",
        ".local/share/code-server",
    ),
)

# What its files mean is in the module of agents that has its name.
AGENTS = {
    "codex": Agent(
        (".codex",),
        ("sessions/2*/*/*/rollout-*", "sessions/rollout-*", "archived_sessions", "session_index.jsonl"),
        ("codex", "resume"),
        variable="CODEX_HOME",
        plan=("update_plan", "plan"),
    ),
    "opencode": Agent(
        ("@", "opencode"),
        ("opencode*.db", "storage/message", "project/*/storage/session"),
        ("opencode", "--session"),
        ids="ses_[0-9A-Za-z]{2,40}",
        store="OPENCODE_DB",
        plan=("todowrite", "todos"),
        left_out="storage/session_diff/, tool-output/, snapshots and the records of projects",
    ),
    "gemini": Agent(
        (".gemini",),
        ("tmp/*/chats",),
        ("gemini", "--resume"),
        variable="GEMINI_CLI_HOME",
        below=(".gemini",),
        plan=("write_todos", "todos"),
        left_out="plans, trackers and tasks of the session, checkpoints and pasted images",
    ),
    "qwen": Agent((".qwen",), ("projects/*/chats",), ("qwen", "--resume"), plan=("todo_write", "todos")),
    "crush": Agent(
        ("@", "crush"),
        ("crush.db",),
        ("crush", "--session"),
        variable="CRUSH_GLOBAL_DATA",
        registry="projects.json",
        left_out="the versions of files that a session edited, logs/",
    ),
    "goose": Agent(
        ("@", "goose"),
        ("sessions/sessions.db", "sessions/2*_*.jsonl"),
        ("goose", "session", "--resume", "--session-id"),
        variable="GOOSE_PATH_ROOT",
        below=("data",),
        ids="[0-9]{8}_[0-9]{1,9}",
        left_out="extension data and recipes of a session",
    ),
    "hermes": Agent(
        (".hermes",),
        ("/.hermes/state.db", "/.hermes/profiles/*/state.db"),
        ("hermes", "--resume"),
        variable="HERMES_HOME",
        ids="[0-9]{8}_[0-9]{6}_[0-9a-f]{2,16}|cron_[0-9a-f]{2,32}_[0-9]{8}_[0-9]{6}",
        plan=("todo", "todos"),
        left_out="the system prompt, checkpoints/ and what gateways keep",
    ),
    "zed": Agent(
        ("@", "zed"),
        ("threads/threads.db",),
        (),
        also=("Library/Application Support/Zed", "AppData/Local/Zed"),
        left_out="conversations/, and the state of the project when a thread began",
    ),
    "kiro": Agent(
        ("@", "kiro-cli"),
        ("/kiro-cli/data.sqlite3",),
        ("kiro-cli", "chat", "--resume-id"),
        also=("Library/Application Support/kiro-cli",),
        left_out="~/.kiro/sessions, and what other tables of the database hold",
    ),
    "amazon-q": Agent(
        ("@", "amazon-q"),
        ("/amazon-q/data.sqlite3",),
        (),
        also=("Library/Application Support/amazon-q",),
        like="kiro",
    ),
    **{
        agent: Agent(
            (".config", "Code", "User", "globalStorage", extension),
            (f"/{extension}/tasks", *marks),
            (),
            also=(*(f"{place}/User/globalStorage/{extension}" for place in _EDITORS), *more),
            like="" if agent == "cline" else "cline",
            left_out="checkpoints/, and what the editor keeps of a task beside its messages",
        )
        for agent, extension, marks, more in (
            ("cline", "saoudrizwan.claude-dev", ("/data/tasks/*/ui_messages.json",), (".cline/data",)),
            ("roo", "rooveterinaryinc.roo-cline", (), ()),
            ("kilo", "kilocode.kilo-code", (), ()),
        )
    },
    "grok": Agent(
        (".grok",),
        ("sessions/*/*/updates.jsonl",),
        ("grok", "--resume"),
        variable="GROK_HOME",
        plan=("todo_write", "todos"),
        left_out="chat_history.jsonl, signals.json, plans and files with results",
    ),
    "antigravity": Agent(
        (".gemini", "antigravity"),
        ("brain/*/.system_generated/logs",),
        ("agy", "--conversation"),
        also=(".gemini/antigravity-ide", ".gemini/antigravity-cli"),
        left_out="artifacts, messages and output of commands in brain/, and the client's own store in conversations/",
    ),
    "copilot": Agent((".copilot",), ("session-state",), ("copilot", "--resume"), variable="COPILOT_HOME"),
    "pi": Agent((".pi",), ("agent/sessions",), ("pi", "--session")),
    "omp": Agent((".omp",), ("agent/sessions",), ("omp", "--resume"), like="pi"),
    "openclaw": Agent(
        (".openclaw",),
        ("agents/*/sessions",),
        (),
        variable="OPENCLAW_STATE_DIR",
        also=(".clawdbot", ".moltbot"),
    ),
    "cursor-agent": Agent(
        (".cursor",),
        ("projects/*/agent-transcripts",),
        ("cursor-agent", "--resume"),
        variable="CURSOR_CONFIG_DIR",
        plan=("todowrite", "todos"),
        left_out="terminals/, agent-tools/, mcps/ and canvases/ of projects, and chats/",
    ),
    "droid": Agent(
        (".factory",), ("sessions/-*/*.jsonl",), ("droid", "--resume"), plan=("todowrite", "todos")
    ),
    "kimi": Agent(
        (".kimi",),
        ("sessions/*/*/wire.jsonl",),
        ("kimi", "--session"),
        variable="KIMI_SHARE_DIR",
        plan=("settodolist", "todos"),
        left_out="context.jsonl, state.json and what sub-agents have of their own",
    ),
    "continue": Agent(
        (".continue",),
        ("sessions/sessions.json",),
        (),
        variable="CONTINUE_GLOBAL_DIR",
        like="continue_sessions",
    ),
    "amp": Agent(
        ("@", "amp"),
        ("threads/T-*",),
        ("amp", "threads", "continue"),
        ids=f"T-{_UUID}",
        plan=("todo_write", "todos"),
    ),
    "iflow": Agent(
        (".iflow",),
        ("projects/*/session-*.jsonl",),
        ("iflow", "--resume"),
        ids=f"session-{_UUID}",
        plan=("todo_write", "todos"),
    ),
}
CLAUDE = "claude"


def id_form(agent: str) -> str:
    """The form of the ids that an agent's client gives its sessions, as a pattern; nothing has that of an unknown agent."""
    if agent == CLAUDE:
        return _UUID
    return AGENTS[agent].ids if agent in AGENTS else "(?!)"


def known_agents() -> tuple[str, ...]:
    """Every agent whose homes are read."""
    return (CLAUDE, *AGENTS)


def agent_homes(environ: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Where the home of each other agent is looked for, existing or not: agent, directory, and what named it."""
    return [
        (agent, *place)
        for agent, row in AGENTS.items()
        for place in (_places(row, environ)[0], *_more_places(row, environ))
    ]


def usual_places(environ: Mapping[str, str]) -> str:
    """Where homes are looked for, for a sentence: a place that a variable names, else whose usual place it is."""
    places = ((agent, _places(row, environ)[0][1]) for agent, row in AGENTS.items())
    others = [origin if origin.startswith("$") else agent for agent, origin in places]
    return f"~/.claude, ~/.config/claude and the usual places of {', '.join(others[:-1])} and {others[-1]}"


def client_homes(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Every directory that a client takes for its home, existing or not: those a variable names, and the usual ones."""
    ours = [(CLAUDE, path) for path in (*named_homes(environ), *usual_homes(environ))]
    others = (
        (agent, path)
        for agent, row in AGENTS.items()
        for path, _ in (*_places(row, environ), *_more_places(row, environ))
    )
    return [*ours, *others]


def _places(row: Agent, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """The directory that the variable names, if it is set, then the usual one; each with what named it."""
    named = environ.get(row.variable, "") if row.variable else ""
    found = []
    if named.strip():
        found.append((os.path.join(absolute(named, environ), *row.below), f"${row.variable}"))
    if row.usual[0] == "@":
        data = _xdg(environ, "XDG_DATA_HOME", ".local", "share")
        named_by = "$XDG_DATA_HOME" if environ.get("XDG_DATA_HOME") else "~/.local/share"
        origin = os.path.join(named_by, *row.usual[1:])
        return [*found, (os.path.join(data, *row.usual[1:]), origin)]
    return [*found, (os.path.join(user_home(environ), *row.usual), os.path.join("~", *row.usual))]


def _more_places(row: Agent, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """The homes of an agent that has several: those of its projects, and existing ones at other places."""
    first = _places(row, environ)[0][0]
    found = (
        [(path, row.registry) for path in _registered(os.path.join(first, row.registry))]
        if row.registry
        else []
    )
    for pattern in row.also:
        import glob

        user = user_home(environ)
        paths = sorted(glob.glob(os.path.join(glob.escape(user), *pattern.split("/"))))
        found += [(path, f"~{path[len(user) :]}") for path in paths]
    return [one for one in found if one[0] != first]


def _registered(registry: str) -> list[str]:
    """The directories of the projects that a client lists; none where the list cannot be read."""
    if not os.path.exists(registry):
        return []
    import json

    try:
        with open(registry, encoding="utf-8") as file:
            listed = json.load(file)["projects"]
        projects = listed.values() if isinstance(listed, dict) else listed
        return [one["data_dir"] for one in projects if os.path.isabs(one["data_dir"])]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return []


def named_store(agent: str, home: str, environ: Mapping[str, str]) -> str | None:
    """The database that a variable names instead of one in the agent's own home; None for other homes, or where there is none."""
    row = AGENTS[agent]
    named = _store_of(row, environ)
    if named is None or os.path.realpath(_places(row, environ)[0][0]) != os.path.realpath(home):
        return None
    return named if os.path.exists(named) else None


def missing_stores(environ: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Databases that a variable names and that are not there: agent, variable, path."""
    named = [(agent, row.store, _store_of(row, environ)) for agent, row in AGENTS.items()]
    return [(agent, name, path) for agent, name, path in named if path and not os.path.exists(path)]


def _store_of(row: Agent, environ: Mapping[str, str]) -> str | None:
    """The database that a variable names, existing or not. A name without a directory is one in the home."""
    named = environ.get(row.store, "").strip() if row.store else ""
    if not named or named == ":memory:":  # what clients of that kind say is stored nowhere
        return None
    return os.path.join(_places(row, environ)[0][0], named)


def agent_at(directory: str) -> str:
    """Whose home a directory is, by what is in it and, of several, by its name; Claude's where nothing says that."""
    name = os.path.basename(directory)  # noqa: PTH119
    for agent, _ in sorted(AGENTS.items(), key=lambda one: one[1].usual[-1] != name):
        if is_home_of(agent, directory):
            return agent
    return CLAUDE


def is_home_of(agent: str, directory: str) -> bool:
    """Whether it has what marks the homes of an agent; one directory may be that of two."""
    return any(_is_marked(directory, mark) for mark in _marks_in(AGENTS[agent], directory))


def _marks_in(row: Agent, directory: str) -> Iterable[str]:
    """The marks that count there: one that begins with a slash has the home's own name first, if no variable names the home."""
    named = os.environ.get(row.variable, "").strip() if row.variable else ""
    is_named = bool(named) and _real(os.path.join(named, *row.below)) == _real(directory)
    for mark in row.marks:
        name, _, rest = mark[1:].partition("/")
        if not mark.startswith("/"):
            yield mark
        elif is_named or os.path.basename(directory) == name:  # noqa: PTH119
            yield rest


def agent_homes_around(path: str, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """The homes of other agents that a path is or lies in: agent and directory.

    First those where clients look for them, then directories that are marked as one.
    """
    found = [one for one in client_homes(environ) if one[0] != CLAUDE and is_within(path, one[1])]
    place = _real(path)
    while place != os.path.dirname(place):  # noqa: PTH120 - the root of all files is no home
        found.append((agent_at(place), place))
        place = os.path.dirname(place)  # noqa: PTH120
    return [one for one in found if one[0] != CLAUDE]


def is_within(path: str, directory: str) -> bool:
    """Whether a path, there or not, is a directory or lies in it, without links."""
    return os.path.join(_real(path), "").startswith(os.path.join(_real(directory), ""))


def _real(path: str) -> str:
    return os.path.realpath(absolute(path, os.environ))


def _is_marked(directory: str, mark: str) -> bool:
    """Whether there is such a name; a star stands for any part of one name."""
    first, _, rest = mark.partition("/")
    if "*" not in mark:
        return os.path.exists(os.path.join(directory, mark))
    if "*" not in first:
        return _is_marked(os.path.join(directory, first), rest)
    start, _, end = first.partition("*")
    try:
        names = [name for name in os.listdir(directory) if name.startswith(start) and name.endswith(end)]
    except OSError:
        return False
    return any(not rest or _is_marked(os.path.join(directory, name), rest) for name in names)


def existing(directories: Iterable[str]) -> list[str]:
    """The existing ones, each real directory once, under its first name."""
    by_real_path: dict[str, str] = {}
    for directory in directories:
        if os.path.isdir(directory):
            by_real_path.setdefault(os.path.realpath(directory), directory)
    return list(by_real_path.values())


def data_dir(environ: Mapping[str, str]) -> str:
    """Our own store, archive, trash and undo data."""
    return _override(environ) or os.path.join(_xdg(environ, "XDG_DATA_HOME", ".local", "share"), OUR_NAME)


def flat_store(environ: Mapping[str, str]) -> str:
    """Where the flat dialect keeps its logs: below ``projects/`` of this directory."""
    return os.path.join(_xdg(environ, "XDG_CONFIG_HOME", ".config"), "claude")


def cache_dir(environ: Mapping[str, str]) -> str:
    """The index and other rebuildable data; inside the data directory where that is overridden."""
    override = _override(environ)
    if override:
        return os.path.join(override, "cache")
    return os.path.join(_xdg(environ, "XDG_CACHE_HOME", ".cache"), OUR_NAME)


def config_file(environ: Mapping[str, str]) -> str:
    """Our settings. ``$RECOLLECT_DATA`` moves data, not settings."""
    return os.path.join(_xdg(environ, "XDG_CONFIG_HOME", ".config"), OUR_NAME, "config.toml")


def absolute(text: str, environ: Mapping[str, str]) -> str:
    """A path that a person wrote as an absolute path; a leading ``~`` is the user's home."""
    if os.path.isabs(text):
        return text
    separated = text.replace(os.altsep, os.sep) if os.altsep else text
    # Without ".", as pathlib reads it: "./~" is the user's home too.
    parts = [part for part in separated.split(os.sep) if part not in ("", ".")]
    if parts[:1] == ["~"]:
        return os.path.join(user_home(environ), *parts[1:])
    return os.path.join(os.getcwd(), *parts)


def user_home(environ: Mapping[str, str]) -> str:
    """The user's home directory; ``UsageError`` where neither a variable nor the system knows it."""
    value = environ.get("USERPROFILE" if os.name == "nt" else "HOME")
    if value:
        return value if os.path.isabs(value) else os.path.join(os.getcwd(), value)
    known = os.path.expanduser("~")
    if known == "~":
        from recollect.errors import UsageError

        raise UsageError(
            "the home directory is not known: HOME is not set", hint="set HOME, or CLAUDE_CONFIG_DIR"
        )
    return known


def _override(environ: Mapping[str, str]) -> str | None:
    value = environ.get("RECOLLECT_DATA", "").strip()
    return absolute(value, environ) if value else None


def _xdg(environ: Mapping[str, str], name: str, *default: str) -> str:
    value = environ.get(name, "")
    # The XDG specification says to ignore a relative path.
    return value if os.path.isabs(value) else os.path.join(user_home(environ), *default)
