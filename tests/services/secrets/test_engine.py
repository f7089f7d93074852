"""The compiled engine: when it is compiled, kept and used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.model.secrets import scan_engine
from recollect.model.secrets.needles import needles
from recollect.services.secrets.engine import WORTH_COMPILING, WORTH_LOADING, engine_ready
from tests.model.secrets.engines import release_engine

pytestmark = pytest.mark.skipif(not scan_engine.version(), reason="no wheel of hyperscan for this platform")


@pytest.fixture(autouse=True)
def released() -> Iterator[None]:
    yield
    release_engine()


@pytest.fixture
def few_needles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling a few expressions takes no time."""
    some = needles()[:3]
    monkeypatch.setattr(scan_engine, "needles", lambda: some)


@pytest.mark.usefixtures("few_needles")
def test_it_is_compiled_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second process loads what the first left, also for less work; an outdated file goes."""
    old = tmp_path / "secrets-old.hs"
    old.write_bytes(b"")
    file = engine_ready(WORTH_COMPILING, tmp_path)
    release_engine()
    monkeypatch.setattr(scan_engine, "compiled", lambda: pytest.fail("compiled again"))

    assert file is not None
    assert [file] == list(tmp_path.iterdir())
    assert 0o600 == file.stat().st_mode & 0o777
    assert file == engine_ready(WORTH_LOADING, tmp_path)
    assert scan_engine.engine() is not None


@pytest.mark.usefixtures("few_needles")
def test_a_damaged_file_is_compiled_again(tmp_path: Path) -> None:
    """A kept file is disposable."""
    file = engine_ready(WORTH_COMPILING, tmp_path)
    assert file is not None
    file.write_bytes(file.read_bytes()[:1000])
    release_engine()

    assert file == engine_ready(WORTH_COMPILING, tmp_path)
    assert scan_engine.engine() is not None


def test_little_work_does_without_it(tmp_path: Path) -> None:
    """Nothing is compiled, nothing is written."""
    assert engine_ready(WORTH_COMPILING - 1, tmp_path) is None
    assert engine_ready(WORTH_LOADING - 1, tmp_path) is None
    assert [] == list(tmp_path.iterdir())


def test_without_the_library_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python does the work where there is no wheel."""
    monkeypatch.setattr(scan_engine, "version", lambda: "")

    assert engine_ready(WORTH_COMPILING, tmp_path) is None


@pytest.mark.usefixtures("few_needles")
def test_a_directory_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    """The engine is used in this process only."""
    (tmp_path / "file").write_bytes(b"")

    assert engine_ready(WORTH_COMPILING, tmp_path / "file" / "cache") is None
    assert scan_engine.engine() is not None
