"""Names whose content decides what other programs run: writing them is never waved through (C05).

They count also where they do not exist yet, at any depth, in any spelling of case.
"""

from __future__ import annotations

from recollect.policy.paths import folded

_DIRECTORIES = frozenset({".git", ".claude", ".vscode", ".idea", ".husky", ".devcontainer", ".ssh", ".gnupg"})
_FILES = frozenset(
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
_SHELL_CONFIGURATION = (".config/fish", ".config/git")


def protected_name(path: str) -> str | None:
    """The component that makes the path a protected one, or None."""
    components = folded(path).strip("/").split("/")
    for component in components:
        if component in _DIRECTORIES:
            return component
    if components[-1] in _FILES:
        return components[-1]
    joined = "/" + "/".join(components) + "/"
    return next((name for name in _SHELL_CONFIGURATION if f"/{name}/" in joined), None)
