"""Whether the settings may hold prices, without parsing TOML: for the status line.

Parsing TOML takes longer than the whole status line. A file without the word sets no price. A file with it is
read by ``storage.our_config``.
"""

from __future__ import annotations


def may_have_prices(path: str) -> bool:
    """Whether the word is in the file; also True if the file exists but cannot be read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib is slow to import
            text = file.read()
            # A key may be written with escapes: then the full parser decides.
            return b"prices" in text or b"\\" in text
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
