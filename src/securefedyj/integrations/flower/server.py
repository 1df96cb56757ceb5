"""Flower's ServerApp: asks all parties to take part, and keeps their common result."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid, ServerApp

from securefedyj.files import write_atomically
from securefedyj.integrations import job
from securefedyj.printable import printable

_LOOK_EVERY = 0.5  # seconds

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run what `template` has written into the run's config."""
    config = context.run_config
    parties = str(config["parties"]).split(", ")
    timeout = float(config["timeout"])
    deadline = time.monotonic() + timeout
    nodes = _nodes(grid, len(parties), deadline)
    names = {node.node_id: node.name for node in nodes if node.name in parties}
    messages = []
    for node in nodes:
        asked = {job.DIGEST: str(config["digest"])}
        if node.node_id in names:  # registered under the name of a party
            asked[job.PARTY] = node.name
        content = RecordDict({job.RECORD: ConfigRecord(dict(asked))})
        kind = MessageType.QUERY
        messages.append(Message(content, node.node_id, kind, ttl=timeout))
    result = _collect(grid, messages, names, job.Answers(parties), deadline)
    print(f"All parties have returned the same {job.RESULT}.")
    if config["output"]:
        folder = Path(str(config["output"])).expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / job.RESULT, result)
        print(f"It is in {folder / job.RESULT}.")
    else:
        print(result.decode())


def _nodes(grid: Grid, number: int, deadline: float) -> list[NodeInfo]:
    """The nodes of the federation, once there is one for each party.

    A restarted node may appear twice, until Flower misses its heartbeats.
    """
    said = ""
    while len(nodes := list(grid.get_nodes())) != number:
        state = f"{number} parties, and {len(nodes)} connected SuperNodes"
        if time.monotonic() > deadline:
            raise job.NoResult(
                "SFY-FLOWER-010", f"There are {state}: connect one for each party, and no other."
            )
        if state != said:
            print(f"Waiting: {state}.")
            said = state
        time.sleep(_LOOK_EVERY)
    return nodes


def _collect(
    grid: Grid,
    messages: list[Message],
    names: Mapping[int, str],
    answers: job.Answers,
    deadline: float,
) -> bytes:
    """The result that all parties return; the first party without one ends the run."""
    asked = [message.metadata.dst_node_id for message in messages]
    waiting = dict(zip(grid.push_messages(messages), asked, strict=True))
    while waiting and time.monotonic() < deadline:
        for reply in grid.pull_messages(waiting):
            node = waiting.pop(reply.metadata.reply_to_message_id)
            if reply.has_error():
                said = printable(str(reply.error.reason), job.LONGEST_REASON)
                who = f"party {names[node]}, SuperNode" if node in names else "SuperNode"
                raise job.NoResult("SFY-FLOWER-011", f"Flower says of {who} {node}: {said}")
            answers.take(reply.content.get(job.RECORD, {}))
        time.sleep(_LOOK_EVERY)
    return answers.result()
