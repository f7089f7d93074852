"""C05, C11: one list of protected names for the engine and the sandbox, and every way of writing one asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.guard.library import Engine
from recollect.guard.policy.paths import CONFIGURATION, FILES

NAMES = [
    ".husky",
    ".devcontainer",
    ".gitattributes",
    ".gitmodules",
    ".npmrc",
    ".yarnrc.yml",
    ".pre-commit-config.yaml",
    ".vimrc",
    ".inputrc",
    ".ssh",
    ".config/fish",
    ".git/hooks",
    ".git/config",
    ".mcp.json",
    ".claude/settings.json",
    ".bashrc",
    ".envrc",
]
WRITES = (
    "cp sub/x {}",
    "mv sub/x {}",
    "install sub/x {}",
    "ln -s sub/x {}",
    "tee {}",
    "touch {}",
    "dd if=sub/x of={}",
)


@pytest.mark.parametrize("name", [*NAMES, *sorted(FILES), *CONFIGURATION])
def test_a_protected_name_is_asked_about_in_every_spelling_of_a_write(name: str, tmp_path: Path) -> None:
    """Also where all of Bash is allowed, by its own name and by that of the source."""
    engine = Engine(allow=["Bash"], cwd=tmp_path, home=tmp_path / "home")
    source = f"sub/{name.split('/', maxsplit=1)[0]}"
    texts = [
        *(write.format(name) for write in WRITES),
        f"cp -r {source} .",
        f"mv {source} .",
        f"ln -s {source}",
    ]
    if "/" in name:
        (tmp_path / "sub" / name).parent.mkdir(parents=True)
        (tmp_path / "sub" / name).write_text("x")
    answers = {text: engine.decide("Bash", {"command": text}).verdict.value for text in texts}
    assert answers == dict.fromkeys(texts, "ask")


def test_the_directory_that_core_hooks_path_names_is_protected(tmp_path: Path) -> None:
    """The repository's own configuration, or the user's, decides from where git runs hooks."""
    repository, home = tmp_path / "repo", tmp_path / "home"
    (repository / ".git").mkdir(parents=True)
    home.mkdir()
    (repository / ".git" / "config").write_text('[core]\n\thooksPath = "tools/hooks"\n')
    (home / ".gitconfig").write_text("[core]\n\thooksPath = ~/common\n")
    engine = Engine(allow=["Bash", "Edit", "Write"], cwd=repository, directories=[home], home=home)
    paths = ("tools/hooks/pre-commit", str(home / "common" / "pre-push"), "tools/other")
    answers = [engine.decide("Bash", {"command": f"cp a {path}"}).verdict.value for path in paths]
    answers += [
        engine.decide("Write", {"file_path": str(repository / path), "content": ""}).verdict.value
        for path in paths
    ]
    assert answers == ["ask", "ask", "allow"] * 2


def test_a_copy_without_a_protected_name_needs_no_answer(tmp_path: Path) -> None:
    """What is listed and holds none passes; what cannot be listed asks, unless all of Bash is allowed."""
    (tmp_path / "clean" / "deep").mkdir(parents=True)
    (tmp_path / "clean" / "deep" / "x").write_text("x")
    (tmp_path / "d").mkdir()
    texts = (
        "cp -r clean d",
        "cp -a clean/. d",
        "mv clean d/new",
        "install -m 644 clean/deep/x d",
        "ln -s clean d",
    )
    whole = Engine(allow=["Bash"], cwd=tmp_path, home=tmp_path)
    assert {whole.decide("Bash", {"command": text}).verdict.value for text in texts} == {"allow"}
    prefix = Engine(allow=["Bash(rsync *)", "Bash(tar *)", "Bash(git *)"], cwd=tmp_path, home=tmp_path)
    verdicts = [
        prefix.decide("Bash", {"command": text}).verdict.value
        for text in (
            "rsync -a clean/ d",
            "rsync -a missing/ d",
            "tar -tf a.tar",
            "tar -xf a.tar",
            "git checkout -- clean/deep/x",
        )
    ]
    assert verdicts == ["allow", "ask", "allow", "ask", "allow"]
