"""Flower's ServerApp: asks all parties to take part, and keeps the result that all return."""

from __future__ import annotations

import time
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid, ServerApp

from securefedyj.files import write_atomically
from securefedyj.integrations.flower.collecting import Answers, NoResult
from securefedyj.integrations.flower.taking_part import DIGEST, RECORD
from securefedyj.report.results import PARAMETERS as FILE

_LOOK_EVERY = 0.5  # seconds, at what has come

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run what `template` has written into the run's config."""
    config = context.run_config
    parties = str(config["parties"]).split(", ")
    deadline = time.monotonic() + float(config["timeout"])
    nodes = _nodes(grid, len(parties), deadline)
    content = RecordDict({RECORD: ConfigRecord({DIGEST: str(config["digest"])})})
    messages = [
        Message(content, dst_node_id=node, message_type=MessageType.QUERY, ttl=config["timeout"])
        for node in nodes
    ]
    result = _collect(grid, messages, Answers(parties), deadline)
    print(f"All parties have returned the same {FILE}.")
    if config["output"]:
        folder = Path(str(config["output"])).expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / FILE, result)
        print(f"It is in {folder / FILE}.")
    else:
        print(result.decode())


def _nodes(grid: Grid, number: int, deadline: float) -> list[int]:
    """The nodes of the federation, as soon as there is one for each party."""
    said = -1
    while True:
        nodes = list(grid.get_node_ids())
        if len(nodes) == number:
            return nodes
        state = f"{number} parties, and {len(nodes)} SuperNodes that are connected"
        if len(nodes) > number or time.monotonic() > deadline:
            raise NoResult(f"There are {state}: connect one for each party, and no other.")
        if len(nodes) != said:
            print(f"Waiting: {state}.")
            said = len(nodes)
        time.sleep(_LOOK_EVERY)


def _collect(grid: Grid, messages: list[Message], answers: Answers, deadline: float) -> bytes:
    """What all parties return; the first that has nothing to return ends it."""
    waiting = set(grid.push_messages(messages))
    while waiting and time.monotonic() < deadline:
        for reply in grid.pull_messages(waiting):
            waiting.discard(reply.metadata.reply_to_message_id)
            if reply.has_error():
                raise NoResult(f"Flower says of node {reply.metadata.src_node_id}: {reply.error}")
            answers.take(reply.content.get(RECORD, {}))
        time.sleep(_LOOK_EVERY)
    return answers.result()
