"""The client's messages in tool results, measured in its transcripts (2.1.325 unless a version is named).

Models were trained on these sentences, and readers recognise calls by them (``model.tool_calls``), so
our results use the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence

REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, "
    "the new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how "
    "to proceed."
)
REJECTED_RICH = "User rejected tool use"
INTERRUPTED = "[Request interrupted by user]"
INTERRUPTED_IN_TOOL = "[Request interrupted by user for tool use]"
ABORTED = "<error>Command was aborted before completion</error>"
NO_OUTPUT = "(Bash completed with no output)"
NOT_READ = "File has not been read yet. Read it first before writing to it."
CHANGED = (
    "File has been modified since read, either by the user or by a linter. Read it again before attempting "
    "to write it."
)
NO_CHANGE = "No changes to make: old_string and new_string are exactly the same."
EMPTY_FILE = "<system-reminder>Warning: the file exists but the contents are empty.</system-reminder>"
TODOS_KEPT = (
    "Todos have been modified successfully. Ensure that you continue to use the todo list to track your "
    "progress. Please proceed with the current tasks if applicable"
)
_CURRENT = " (file state is current in your context \u2014 no need to Read it back)"
_KIB = 1024


def denied(tool: str, command: str | None) -> str:
    what = f"{tool} with command {command}" if command is not None else tool
    return f"Permission to use {what} has been denied."


def not_granted(tool: str, path: str | None, *, writes: bool) -> str:
    """No approval was given."""
    if path is None:
        return f"Claude requested permissions to use {tool}, but you haven't granted it yet."
    what = "write to" if writes else "read from"
    return f"Claude requested permissions to {what} {path}, but you haven't granted it yet."


def parts_not_granted(parts: Sequence[str]) -> str:
    """The same for a command of several parts."""
    listed = ", ".join(parts)
    return (
        f"This Bash command contains multiple operations. The following parts require approval: {listed}"
        if len(parts) > 1
        else "This command requires approval"
    )


def tool_error(text: str) -> str:
    """The answer to a call that could not be made at all."""
    return f"<tool_use_error>{text}</tool_use_error>"


def no_such_tool(name: str) -> str:
    return f"Error: No such tool available: {name}"


def invalid(tool: str, problem: str) -> str:
    return f"InputValidationError: {tool} failed due to the following issue:\n{problem}"


def created(path: str) -> str:
    return f"File created successfully at: {path}{_CURRENT}"


def updated(path: str, *, everywhere: bool = False, known: bool = True) -> str:
    """``known``: the model has seen the whole file."""
    how = ". All occurrences were successfully replaced." if everywhere else " successfully."
    return f"The file {path} has been updated{how}{_CURRENT if known else ''}"


def missing(cwd: str) -> str:
    return f"File does not exist. Note: your current working directory is {cwd}."


def not_found_in_file(text: str) -> str:
    return f"String to replace not found in file.\nString: {text}"


def found_often(times: int, text: str) -> str:
    return (
        f"Found {times} matches of the string to replace, but replace_all is false. To replace all occurrences, "
        "set replace_all to true. To replace only one occurrence, please provide more context to uniquely identify "
        f"the instance.\nString: {text}"
    )


def timed_out(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"Command timed out after {f'{minutes}m {rest}s' if minutes else f'{rest}s'}"


def directory_reset(directory: str) -> str:
    """The command ended outside the working directories."""
    return f"Shell cwd was reset to {directory}"


def persisted(path: str, size: int, preview: str) -> str:
    """Output too long for the conversation; all of it is in a file."""
    return (
        f"<persisted-output>\nOutput too large ({size / _KIB:.1f}KB). Full output saved to: {path}\n\n"
        f"Preview (first 2KB):\n{preview}\n...\n</persisted-output>"
    )
