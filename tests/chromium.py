"""A real headless browser, driven over its debugging pipe: no library, no port."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MISSING = "no chromium on this machine: apt-get install chromium"
_WAIT_S = 60.0


class Browser:
    """One page. `events`: all that the browser told, requests and console messages among them."""

    def __init__(self, folder: Path, width: int = 1440, height: int = 900) -> None:
        assert CHROMIUM is not None, MISSING
        self.events: list[dict[str, Any]] = []
        self._next = 0
        self._left = b""
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def wire() -> None:  # the browser reads from 3 and writes to 4
            os.dup2(to_read, 10)
            os.dup2(to_write, 11)
            os.dup2(10, 3)
            os.dup2(11, 4)

        options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe")
        options += ("--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={folder}")
        self._process = subprocess.Popen(
            [CHROMIUM, *options, f"--window-size={width},{height}", "about:blank"],
            close_fds=False, preexec_fn=wire, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    _session: str | None = None

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def send(self, method: str, **given: Any) -> dict[str, Any]:
        """A command of the DevTools protocol, and its result."""
        self._next += 1
        message: dict[str, Any] = {"id": self._next, "method": method, "params": given}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + _WAIT_S
        while True:
            told = self._message(until)
            if told.get("id") == self._next:
                assert "error" not in told, told
                return dict(told.get("result", {}))
            self.events.append(told)

    def open(self, url: str) -> None:
        """Load a page."""
        self.send("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """Value of an expression in the page, awaited."""
        told = self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Until an expression is true in the page."""
        until = time.monotonic() + _WAIT_S
        while not self.run(condition):
            assert time.monotonic() < until, condition
            time.sleep(0.05)

    @property
    def requested(self) -> list[str]:
        """Addresses that pages asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]

    @property
    def faults(self) -> list[str]:
        """Errors of the console and of scripts."""
        return [
            json.dumps(event["params"])[:500]
            for event in self.events
            if event.get("method") == "Runtime.exceptionThrown"
            or (event.get("method") == "Log.entryAdded"
                and event["params"]["entry"]["level"] == "error")
        ]  # fmt: skip

    def _message(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._left:
            left = until - time.monotonic()
            ready, _, _ = select.select([self._read], [], [], max(0.0, left))
            assert ready, "the browser does not answer"
            self._left += os.read(self._read, 1 << 20)
        whole, _, self._left = self._left.partition(b"\0")
        return dict(json.loads(whole))
