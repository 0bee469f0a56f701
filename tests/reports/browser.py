"""A headless Chromium on a pipe: opens pages, listens to them, measures, takes pictures."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BINARY = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
REASON = "no Chromium here: install Debian's chromium for tests that look at pages"
_PATIENCE_S = 60.0


class Browser:
    """One page at a time; `said`: console errors, `asked`: requests beyond the page itself."""

    def __init__(self, reads: int, writes: int) -> None:
        self._reads, self._writes = reads, writes
        self._rest, self._number = b"", 0
        self._session = ""
        self.said: list[str] = []
        self.asked: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        found = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")

    def open(self, page: Path, width: int, *, dark: bool, height: int = 900) -> None:
        """Load a page at a width, in one of the two colour schemes."""
        self.said, self.asked = [], []
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._loaded = False
        self._call("Page.navigate", url=page.resolve().as_uri())
        until = time.monotonic() + _PATIENCE_S
        while not self._loaded and time.monotonic() < until:
            self._hear()
        self.evaluate("document.fonts.ready.then(() => 0)")

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page, as plain data."""
        found = self._call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def picture(self, path: Path) -> None:
        """The whole page as PNG."""
        shot = self._call("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        path.write_bytes(base64.b64decode(shot["data"]))

    def _call(self, method: str, **given: Any) -> dict[str, Any]:
        self._number += 1
        own = self._number
        message: dict[str, Any] = {"id": own, "method": method, "params": given}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writes, json.dumps(message).encode() + b"\0")
        while True:
            heard = self._hear()
            if heard.get("id") == own:
                assert "error" not in heard, f"{method}: {heard['error']}"
                result: dict[str, Any] = heard["result"]
                return result

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._reads, 1 << 20)
            assert part, "the browser has gone"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        heard: dict[str, Any] = json.loads(text)
        self._note(heard.get("method", ""), heard.get("params", {}))
        return heard

    def _note(self, event: str, told: dict[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Runtime.exceptionThrown":
            self.said.append(str(told["exceptionDetails"])[:400])
        elif event == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning"):
            self.said.append(str(told["args"])[:400])
        elif event == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.said.append(told["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            url = told["request"]["url"]
            if told.get("type") != "Document" and not url.startswith(("data:", "blob:")):
                self.asked.append(url)


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser that ends with the block."""
    assert BINARY is not None, REASON
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    with tempfile.TemporaryDirectory(prefix="v4sim-browser-", ignore_cleanup_errors=True) as home:

        def place() -> None:  # the browser reads descriptor 3 and writes descriptor 4
            os.dup2(os.dup(to_read), 3)
            os.dup2(from_write_high, 4)

        from_write_high = os.dup(from_write)
        os.set_inheritable(from_write_high, True)
        process = subprocess.Popen(
            [
                BINARY, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
                "--disable-component-update", "--disable-sync", f"--user-data-dir={home}",
                "--remote-debugging-pipe", "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=place,
        )  # fmt: skip
        os.close(to_read)
        os.close(from_write)
        os.close(from_write_high)
        try:
            yield Browser(from_read, to_write)
        finally:
            os.close(to_write)
            os.close(from_read)
            process.terminate()
            process.wait(timeout=20)
