"""A real browser without a window, driven by a pipe; no library is needed for that."""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE, wait_until

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
_QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--remote-debugging-pipe",
)  # fmt: skip


class Browser:
    """One page of Chromium at a time."""

    def __init__(self, folder: Path) -> None:
        assert CHROMIUM is not None
        # The browser reads from descriptor 3 and writes to 4; ours must not be in their way.
        reads, self._out = (_high(end) for end in os.pipe())
        self._in, writes = (_high(end) for end in os.pipe())

        def place() -> None:
            os.dup2(reads, 3)
            os.dup2(writes, 4)

        self._process = subprocess.Popen(
            [CHROMIUM, *_QUIET, f"--user-data-dir={folder}"],
            preexec_fn=place,
            pass_fds=(3, 4),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(reads)
        os.close(writes)
        self._ids, self._buffer = itertools.count(1), b""
        self._session: str | None = None
        self.told: list[str] = []
        """What the page has written to the console, and what the browser has refused."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def open(self, page: Path | str, width: int) -> None:
        """Load a page at a width, by its file or address, and wait until it is there."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        self._call("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        while self._message().get("method") != "Page.loadEventFired":
            pass

    def evaluate(self, expression: str) -> Any:
        """What an expression of JavaScript is worth on the page."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression is true, even if the page loads itself again meanwhile."""

        def holds() -> bool:
            answer = self._ask("Runtime.evaluate", expression=expression, returnByValue=True)
            return bool(answer.get("result", {}).get("result", {}).get("value"))

        wait_until(
            holds, lambda: self._ask("Runtime.evaluate", expression="document.body.innerText")
        )

    def picture(self, file: Path) -> None:
        """Write the whole page as PNG."""
        taken = self._call("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(taken["data"]))

    def press(self, key: str) -> None:
        """Press and release a key, such as Enter."""
        code = {"Enter": 13, "Tab": 9}[key]
        for kind in ("keyDown", "keyUp"):
            text = "\r" if key == "Enter" and kind == "keyDown" else ""
            self._call(
                "Input.dispatchKeyEvent",
                type=kind, key=key, code=key, windowsVirtualKeyCode=code, text=text,
            )  # fmt: skip

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        message = self._ask(method, **parameters)
        assert "error" not in message, message
        result: dict[str, Any] = message["result"]
        return result

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._ids)
        order = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            order["sessionId"] = self._session
        os.write(self._out, json.dumps(order).encode() + b"\0")
        while (message := self._message()).get("id") != number:
            pass
        return message

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            assert select.select([self._in], [], [], PATIENCE)[0], "the browser hangs"
            more = os.read(self._in, 1 << 16)
            assert more, "the browser has ended"
            self._buffer += more
        one, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(one)
        if message.get("method") in (
            "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded",
        ):  # fmt: skip
            self.told.append(json.dumps(message["params"]))
        return message


def _high(descriptor: int) -> int:
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved
