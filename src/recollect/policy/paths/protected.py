"""Names whose content decides what other programs run: writing them always needs an answer (C05).

They count even where they do not exist yet, at any depth, in any case. The permission engine and the
sandbox share this list.
"""

from __future__ import annotations

from recollect.policy.paths.spelling import folded

# Directories with the parts that are executed or trusted; no parts means all of it. The permission engine
# protects whole directories; the sandbox only these parts, because a commit writes to the rest of .git.
DIRECTORIES: dict[str, tuple[str, ...]] = {
    ".git": ("hooks", "config"),
    ".claude": ("settings.json", "settings.local.json", "hooks", "commands", "agents", "skills"),
    ".vscode": (),
    ".idea": (),
    ".husky": (),
    ".devcontainer": (),
    ".ssh": (),
    ".gnupg": (),
}
FILES = frozenset(
    {
        ".bash_aliases",
        ".bash_login",
        ".bash_logout",
        ".bash_profile",
        ".bashrc",
        ".claude.json",
        ".envrc",
        ".gitattributes",
        ".gitconfig",
        ".gitmodules",
        ".inputrc",
        ".kshrc",
        ".mcp.json",
        ".npmrc",
        ".pre-commit-config.yaml",
        ".profile",
        ".ripgreprc",
        ".vimrc",
        ".yarnrc",
        ".yarnrc.yml",
        ".zlogin",
        ".zlogout",
        ".zprofile",
        ".zshenv",
        ".zshrc",
    }
)
CONFIGURATION = (".config/fish", ".config/git")


def protected_name(path: str) -> str | None:
    """The component that makes the path protected, or None."""
    components = folded(path).strip("/").split("/")
    for component in components:
        if component in DIRECTORIES:
            return component
    if components[-1] in FILES:
        return components[-1]
    joined = "/" + "/".join(components) + "/"
    return next((name for name in CONFIGURATION if f"/{name}/" in joined), None)


def names_in_tree() -> tuple[str, ...]:
    """The names as relative paths at the top of a tree, for the sandbox."""
    parts = [f"{name}/{part}" for name, parts in DIRECTORIES.items() for part in parts]
    whole = [name for name, parts in DIRECTORIES.items() if not parts]
    return (*parts, *whole, *sorted(FILES), *CONFIGURATION)


def hooks_directory(git_config: str) -> str | None:
    """The directory that ``core.hooksPath`` names in a git configuration, as it is written; files it includes do not count."""
    section, found = "", None
    for line in git_config.replace("\\\n", "").splitlines():
        text = line.strip()
        if text.startswith("["):
            head, _, text = text[1:].partition("]")
            section, text = head.strip().lower(), text.strip()
        name, equals, value = text.partition("=")
        if section == "core" and equals and name.strip().lower() == "hookspath":
            found = _unquoted(value.strip()) or None
    return found


def _unquoted(value: str) -> str:
    """A value without its quotes, escapes and comment."""
    text, quoted, letters = "", False, iter(value)
    for letter in letters:
        if letter == '"':
            quoted = not quoted
        elif letter == "\\":
            text += next(letters, "")
        elif letter in "#;" and not quoted:
            break
        else:
            text += letter
    return text if quoted else text.rstrip()
