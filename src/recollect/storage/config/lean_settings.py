"""Whether the settings can hold prices, found without reading them as TOML: for the status line.

Reading TOML, and checking it, takes longer than the whole line. A file that does not even have the
word in it sets no price. One that has it is read by ``storage.our_config``.
"""

from __future__ import annotations


def may_have_prices(path: str) -> bool:
    """Whether the word stands in the file; also where the file is there and cannot be read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib is slow to import
            text = file.read()
            # A key may be written with escapes: whoever does so waits for the proper reader.
            return b"prices" in text or b"\\" in text
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
