"""What is published: the wheel runs by itself, the source distribution can be tested, neither holds anything else."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

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


def test_the_wheel_works_without_the_source(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """Unpacked elsewhere it shows the sample home, and names pip where an extra is missing."""
    wheel.extractall(tmp_path)
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import recollect.errors
from recollect.cli.main import main
assert recollect.__file__.startswith({str(tmp_path)!r}), recollect.__file__
print(recollect.errors.install_hint("web", prefix="/nowhere"))
from recollect.services.plugin.install import plugin_directory
assert str(plugin_directory()).startswith({str(tmp_path)!r}), plugin_directory()
sys.exit(main(["--home", ":sample", "list"]))
"""
    ran = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout.startswith("pip install 'recollect[web]'\n")
    assert "Basket totals off by a cent" in ran.stdout


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
