"""Flower's ClientApp: one query, in which the site takes part in a whole run over our hub."""

from __future__ import annotations

from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.supercore.utils import get_flwr_home

from securefedyj.integrations.job import RECORD, answer
from securefedyj.joining.site import FILE

app = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    """Take part in the run whose digest the message has."""
    asked = message.content.get(RECORD, {})
    record = ConfigRecord(dict(answer(asked, _file_of(context))))
    return Message(RecordDict({RECORD: record}), reply_to=message)


def _file_of(context: Context) -> Path:
    """The site's own file, which a run cannot name.

    A SuperNode's config names it. In a simulation, sites have no config: their files are in
    Flower's own folder, by their numbers.
    """
    own = context.node_config
    if RECORD in own:
        return Path(str(own[RECORD])).expanduser()
    return Path(get_flwr_home()) / RECORD / str(own.get("partition-id", 0)) / FILE
