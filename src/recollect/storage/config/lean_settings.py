"""Whether the settings may hold prices or budgets, without parsing TOML: for the status line.

Parsing TOML takes longer than the whole status line. A file without the word sets none. A file with it is
read by ``our_config`` or ``budget_settings``.
"""

from __future__ import annotations


def may_have_prices(path: str) -> bool:
    """Whether the word is in the file; also True if the file exists but cannot be read."""
    return _may_have(path, b"prices")


def may_have_budgets(path: str) -> bool:
    """The same for budgets."""
    return _may_have(path, b"budget")


def _may_have(path: str, word: bytes) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib is slow to import
            text = file.read()
            # A key may be written with escapes: then the full parser decides.
            return word in text or b"\\" in text
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
