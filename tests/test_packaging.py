"""What is published: the wheel runs by itself, the source distribution can be tested, neither holds anything else."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tarfile
import tomllib
import urllib.request
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import recollect

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "recollect"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def built(kind: str, place: Path) -> Path:
    """A distribution of this source, by the build back end that pip uses."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(place)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (found,) = place.iterdir()
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, open."""
    return zipfile.ZipFile(built("wheel", tmp_path_factory.mktemp("wheel")))


def source_files(place: Path) -> set[str]:
    """Files of a directory as the repository has them: no caches."""
    return {
        path.relative_to(place).as_posix()
        for path in place.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    """Every module, the built page, the sample home, the client's plugins and the marker for type checkers."""
    files = {name.removeprefix("recollect/") for name in wheel.namelist() if name.startswith("recollect/")}
    others = {name.split("/")[0] for name in wheel.namelist()} - {"recollect"}

    assert files == source_files(PACKAGE) | {f"plugin/{name}" for name in source_files(ROOT / "plugin")}
    assert {"py.typed", "web/static/index.html"} <= files
    assert any(name.startswith("sample/home/projects/") for name in files)
    assert others == {f"recollect-{recollect.__version__}.dist-info"}


@pytest.fixture(scope="module")
def installed(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment that holds the wheel and what it requires, and nothing else.

    What it requires is linked from this environment, so that the test needs no network.
    """
    place = tmp_path_factory.mktemp("installed")
    venv.create(place)
    (site,) = place.glob("lib/python*/site-packages")
    wheel.extractall(site)
    for name in required("recollect", set()) - {"recollect"}:
        for file in metadata.distribution(name).files or ():
            link = site / file.parts[0]
            if file.parts[0] != ".." and not link.exists():
                link.symlink_to(Path(str(file.locate())).parents[len(file.parts) - 1] / file.parts[0])
    return place / "bin" / "python"


def required(name: str, seen: set[str]) -> set[str]:
    """The distribution and all that it requires without an extra."""
    if name not in seen:
        seen.add(name)
        for need in map(Requirement, metadata.distribution(name).requires or ()):
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                required(need.name, seen)
    return seen


def ask(python: Path, *words: str, given: str | None = None) -> str:
    command = [str(python), "-P", "-m", "recollect", "--home", ":sample", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, input=given).stdout


def test_a_plain_installation_answers_on_every_surface(installed: Path, tmp_path: Path) -> None:
    """The wheel alone: overview, export, the page and an agent's questions need no extra; what is installed fits together."""
    assert "Basket totals off by a cent" in ask(installed)
    assert "Basket totals off by a cent" in ask(installed, "export", "6ada", "--format", "html")
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}
    answer = json.loads(ask(installed, "mcp", "serve", given=json.dumps(hello) + "\n"))
    assert "recollect" == answer["result"]["serverInfo"]["name"]
    command = [str(installed), "-P", "-m", "recollect", "--home", ":sample", "web", "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as page:
        assert page.stdout is not None
        try:
            with urllib.request.urlopen(page.stdout.readline().split()[-1].partition("#")[0]) as opened:
                assert b"<title>" in opened.read()
        finally:
            page.send_signal(signal.SIGINT)
    checked = subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(installed), "check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == checked.returncode, checked.stdout


def test_a_missing_extra_is_named_with_the_command_that_adds_it(installed: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        ask(installed, "data", "sql", "select 1")
    assert 2 == refused.value.returncode
    assert "pip install 'recollect[data]'" in refused.value.stderr


def test_the_source_distribution_holds_what_make_test_needs(tmp_path: Path) -> None:
    """Package, tests, tools, documents and locks; not the page's source, whose built form is in the package."""
    with tarfile.open(built("sdist", tmp_path)) as archive:
        files = {name.split("/", 1)[1] for name in archive.getnames()}

    tops = {name.split("/")[0] for name in files}
    directories = {"src", "tests", "tools", "bench", "docs", "plugin", "requirements"}
    pages = {path.name for path in ROOT.glob("*.md")}
    assert tops == directories | pages | {"Makefile", "LICENSE", "pyproject.toml", "PKG-INFO", ".gitignore"}
    for directory in directories:
        assert {name for name in files if name.startswith(f"{directory}/")} >= {
            f"{directory}/{name}" for name in source_files(ROOT / directory) if not name.startswith("out/")
        }


def test_classifiers_and_lower_bound_agree() -> None:
    """The oldest version that is named is the one that is required."""
    named = [text.rsplit(" ", 1)[1] for text in PROJECT["classifiers"] if "Python :: 3." in text]

    assert PROJECT["requires-python"] == f">={named[0]}"


def test_every_extra_can_be_installed_together() -> None:
    """An extra refers only to packages, or to extras that exist."""
    extras = PROJECT["optional-dependencies"]
    referred = [
        need.split("[")[1].rstrip("]").split(",")
        for needs in extras.values()
        for need in needs
        if need.startswith("recollect[")
    ]

    assert {name for names in referred for name in names} <= set(extras)
