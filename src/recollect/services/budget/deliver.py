"""Deliver warnings: run the command, show a notice on the desktop, call the webhook.

The status line and the client's hook start it in the background; ``recollect budget --team`` waits for it.

python -m recollect.services.budget.deliver DATA CONFIG KEY...

A way that fails does not keep the others from being tried. What became of each is written into the mark, without the
address of the webhook: it may be a secret. ``recollect budget`` shows it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from recollect.model.budget import BudgetSettings
from recollect.storage import budget_marks
from recollect.storage.config.budget_settings import budget_settings
from recollect.system import fsops

COMMAND_SECONDS = 30.0
WEBHOOK_SECONDS = 10.0
_TITLE = "recollect"


def deliver(settings: BudgetSettings, warning: dict[str, Any]) -> dict[str, str]:
    """Every way that is set, and what became of it: ``sent``, or why not."""
    ways: dict[str, Callable[[], None]] = {}
    if settings.command:
        ways["command"] = lambda: _run_command(settings.command, warning)
    if settings.desktop:
        ways["desktop"] = lambda: _show_notice(str(warning["text"]))
    webhook = settings.webhook
    if webhook is not None:
        ways["webhook"] = lambda: _call_webhook(webhook, warning)
    outcomes = {}
    for name, way in ways.items():
        try:
            way()
            outcomes[name] = "sent"
        except _NotSent as why:
            outcomes[name] = str(why)
        except Exception as problem:  # noqa: BLE001 - one way that fails must not stop the others
            outcomes[name] = f"failed: {type(problem).__name__}"
    return outcomes


class _NotSent(Exception):
    """Why a warning did not go one way, in words that hold no address."""


def _run_command(command: tuple[str, ...], warning: dict[str, Any]) -> None:
    try:
        done = subprocess.run(
            list(command), input=json.dumps(warning).encode(), timeout=COMMAND_SECONDS, check=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except FileNotFoundError:
        raise _NotSent("failed: no such command") from None
    except subprocess.TimeoutExpired:
        raise _NotSent(f"failed: not done within {COMMAND_SECONDS:g} s") from None
    if done.returncode:
        raise _NotSent(f"failed: exit status {done.returncode}")


def _show_notice(text: str) -> None:
    if (program := shutil.which("notify-send")) is not None:
        command: tuple[str, ...] = (program, "--app-name", _TITLE, _TITLE, text)
    elif (program := shutil.which("osascript")) is not None:
        command = (program, "-e", f"display notification {json.dumps(text)} with title {json.dumps(_TITLE)}")
    else:
        raise _NotSent("failed: neither notify-send nor osascript is installed")
    _run_command(command, {})


def _call_webhook(address: str, warning: dict[str, Any]) -> None:
    from urllib.error import HTTPError, URLError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class _NoRedirect(HTTPRedirectHandler):
        """A redirect would send the warning to an address that is not in the settings."""

        def redirect_request(self, *_: Any) -> None:
            return None

    request = Request(  # noqa: S310 - http and https only: the settings are checked
        address, json.dumps(warning).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    try:
        with build_opener(_NoRedirect).open(request, timeout=WEBHOOK_SECONDS):
            return
    except HTTPError as refused:
        raise _NotSent(f"failed: answer {refused.code}") from None
    except (URLError, OSError) as problem:
        reason = getattr(problem, "reason", problem)
        raise _NotSent(f"failed: {type(reason).__name__}") from None


def deliver_marked(settings: BudgetSettings, data: str, keys: Iterable[str]) -> None:
    """Deliver the warnings that this process marked, and write into each mark what became of it."""
    for key in keys:
        path = Path(budget_marks.mark_path(data, key))
        warning = json.loads(path.read_bytes())
        outcomes = deliver(settings, warning)
        fsops.replace_file(path, json.dumps({**warning, "delivered": outcomes}).encode())
    budget_marks.forget_old(data, time.time())


def main(arguments: list[str]) -> int:
    data, config, *keys = arguments
    settings = budget_settings(config)
    if settings is not None:
        deliver_marked(settings, data, keys)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
