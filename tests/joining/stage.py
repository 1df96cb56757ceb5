"""Three parties in a folder, and a hub in a thread, which outlasts the event loops of tests."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from securefedyj.network.consortium import Consortium
from securefedyj.network.hub import HubServer
from securefedyj.network.identity import Identity
from tests.network import harness
from tests.patience import PATIENCE


class Stage:
    """What the calls of each party share; all that they were told is kept."""

    def __init__(self, folder: Path, tables: dict[str, Any], **numbers: Any) -> None:
        self.folder, self.tables = folder, tables
        self.consortium: Consortium = harness.prepare(folder, tables, **numbers)
        self.said: dict[str, list[str]] = {name: [] for name in tables}

    def arguments(self, name: str, **others: Any) -> dict[str, Any]:
        return {
            "consortium": self.folder / "consortium.toml",
            "key": self.folder / f"{name}.key",
            "certificate": self.folder / f"{name}.pem",
            "output": self.folder / name,
            "data": self.tables[name],
            "ledger": self.folder / f"{name}.ledger.jsonl",
            "timeout": PATIENCE,
            "wait": PATIENCE,
            "say": self.said[name].append,
            **others,
        }

    def file(self, name: str, file: str = "parameters.json") -> bytes:
        return (self.folder / name / file).read_bytes()

    @contextlib.contextmanager
    def hub(self) -> Iterator[None]:
        identity = Identity(self.folder / "hub.key", self.folder / "hub.pem")
        agreed, loop = self.consortium.agreed_hub(), asyncio.new_event_loop()
        hub = HubServer([self.consortium], identity, lambda event, **fields: None)
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        asyncio.run_coroutine_threadsafe(hub.start(agreed.host, agreed.port), loop).result(PATIENCE)
        try:
            yield
        finally:
            asyncio.run_coroutine_threadsafe(hub.stop(), loop).result(PATIENCE)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(PATIENCE)
            loop.close()
