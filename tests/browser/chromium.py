"""A real Chromium, driven through Node; and what is missing where there is none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]
WEB = ROOT / "web"
STATIC = ROOT / "src" / "recollect" / "web" / "static"


def missing() -> str | None:
    """What has to be installed before these tests can run, or None."""
    if program() is None:
        return "Chromium is missing: apt-get install chromium"
    if shutil.which("node") is None:
        return "Node.js is missing: apt-get install nodejs"
    if not (WEB / "node_modules" / "playwright-core").is_dir():
        return "the browser driver is missing: cd web && npm install --no-save"
    if not (STATIC / "index.html").is_file():
        return "the page is not built: make web"
    return None


def program() -> str | None:
    """Debian's Chromium, or the one that RECOLLECT_CHROMIUM names."""
    named = os.environ.get("RECOLLECT_CHROMIUM")
    return named or shutil.which("chromium") or shutil.which("chromium-browser")


class Chromium:
    """One browser, one page; each step of web/e2e/steps.mjs is a method."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        bridge = WEB / "e2e" / "bridge.mjs"
        self._process = subprocess.Popen(
            ["node", str(bridge), str(program())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=WEB,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def do(self, step: str, /, **args: object) -> Any:
        """Take a step; gives what it tells."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"step": step, "args": args}) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, f"the browser ended during {step}"
        answer = json.loads(line)
        assert "error" not in answer, f"{step} {args}: {answer['error']}"
        return answer["value"]


class Server:
    """``recollect web`` in a process of its own; ``more`` are options of that command."""

    def __init__(self, home: Path, data: Path, *more: str) -> None:
        words = [sys.executable, "-m", "recollect", "--home", str(home), "--data", str(data)]
        self._words = [*words, "web", "--no-open", "--json", *more]
        self._env = {**os.environ, "HOME": str(data)}
        self.url = ""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=self._env
        )
        assert self._process.stdout is not None
        told = ""
        while not told.rstrip().endswith("}"):
            line = self._process.stdout.readline()
            assert line, "the server ended before it told its address"
            told += line
        self.url = json.loads(told)["url"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
