"""The apps by Flower's own objects, in one process; without flwr there is nothing to do."""

from __future__ import annotations

import io
import json
import os
import sys
import zipfile
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import pytest

from securefedyj.integrations.flower import template
from securefedyj.integrations.job import JobRefused, NoResult, named
from tests.integrations.flower import sites

pytest.importorskip("flwr")

from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.cli.build import build_fab_from_disk
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.constant import TASK_TYPE_TO_COMMAND
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode import cli
from flwr.supernode.runtime import run_clientapp

from securefedyj.integrations.flower import client, process, rehearsal, server, supernode

NAMES = ("north", "south", "west")
RESULT = json.dumps({"features": []}).encode()


def context(**config: Any) -> Context:
    return Context(1, 1, config, RecordDict(), {})


class Nodes:
    """Nodes in this process, in place of Flower's grid; keeps all that goes through it."""

    def __init__(self, answers: list[Any], names: Sequence[str]) -> None:
        self._answers, self._names, self._sent = answers, names, list[Message]()
        self.handled: list[Message] = []

    def get_nodes(self) -> list[NodeInfo]:
        """Those that are registered have names."""
        named = zip_longest(self._answers, self._names, fillvalue="")
        return [NodeInfo(node_id=n, name=name) for n, (_, name) in enumerate(named, start=1)]

    def push_messages(self, messages: list[Message]) -> list[str]:
        for number, message in enumerate(messages):
            message.metadata.__dict__["_message_id"] = str(number)
        self._sent = list(messages)
        self.handled += messages
        return [str(number) for number in range(len(messages))]

    def pull_messages(self, waiting: dict[str, int]) -> list[Message]:
        replies = [
            Message(said if isinstance(said, Error) else record(said), reply_to=message)
            for message, said in zip(self._sent, self._answers, strict=True)
            if message.metadata.message_id in waiting
        ]
        self.handled += replies
        return replies


def record(entries: dict[str, Any]) -> RecordDict:
    return RecordDict({"securefedyj": ConfigRecord(entries)})


def results(*names: str) -> list[Any]:
    return [{"party": name, "parameters": RESULT} for name in names]


def run_server(answers: list[Any], names: Sequence[str] = (), **config: Any) -> Nodes:
    nodes = Nodes(answers, names)
    given = {"digest": "sha256:00", "parties": ", ".join(NAMES), "timeout": 60, "output": ""}
    run = Context(1, 1, {}, RecordDict(), given | config)
    server.app(nodes, run)
    return nodes


@pytest.fixture(autouse=True)
def _task(monkeypatch):
    """What Flower's processes set before they load an app; and no pauses."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    monkeypatch.setattr(server, "_LOOK_EVERY", 0.0)


def test_server_sends_the_digest_and_gets_the_result(tmp_path, capsys):
    nodes = run_server(results(*NAMES), output=str(tmp_path))
    assert (tmp_path / "parameters.json").read_bytes() == RESULT
    assert "All parties have returned the same parameters.json." in capsys.readouterr().out
    contents = [dict(message.content["securefedyj"]) for message in nodes.handled]
    assert contents == [{"digest": "sha256:00"}] * 3 + results(*NAMES)


def test_result_is_in_the_log_without_an_output(capsys):
    run_server(results(*NAMES))
    assert RESULT.decode() in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        (results("north", "north", "west"), "Two sites say that they are north"),
        ([*results("north", "south"), Error(3, "gone")], "Flower says of SuperNode 3: gone"),
        ([*results("north", "south"), {"party": "west", "reason": "west refuses"}], "west refuses"),
    ],
)
def test_server_has_no_result_unless_each_party_returns_it(answers, sentence):
    with pytest.raises(NoResult, match=sentence):
        run_server(answers)


def test_a_node_that_is_registered_under_the_name_of_a_party_is_called_so():
    answers = [*results("north", "south"), Error(3, "gone")]
    with pytest.raises(NoResult, match="Flower says of party west, SuperNode 3: gone"):
        run_server(answers, NAMES)
    nodes = run_server(results(*NAMES), ("north", "another"))
    contents = [dict(message.content["securefedyj"]) for message in nodes.handled[:3]]
    assert [content.get("party") for content in contents] == ["north", None, None]


def test_words_of_a_node_are_harmless_and_few():
    with pytest.raises(NoResult) as caught:
        run_server([*results("north", "south"), Error(3, "\x1b[2J\nAll is well." + "!" * 10_000)])
    sentence = str(caught.value)
    assert sentence.isprintable()
    assert len(sentence) < 2000


@pytest.mark.parametrize("number", [2, 4])
def test_each_party_has_one_node(number):
    with pytest.raises(NoResult, match=f"3 parties, and {number} connected SuperNodes"):
        run_server(results(*NAMES, *NAMES)[:number], timeout=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sites")
    sites.prepare(folder, sites.tables(1))
    template.write(sites.agreed(folder), folder / "fit")
    return folder


def test_site_answers_a_query_by_its_own_file(folder):
    asked = Message(record({"digest": "sha256:00"}), dst_node_id=2, message_type="query")
    reply = client.app(asked, context(securefedyj=str(sites.file_of(folder, "south"))))
    back = dict(reply.content["securefedyj"])
    assert set(back) == {"party", "reason"}
    assert "south refuses this job" in back["reason"]


def test_run_cannot_name_the_file_of_a_site(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("FLWR_HOME", str(tmp_path))
    own = sites.file_of(folder, "south")
    asked = Message(record({"digest": named(sites.agreed(folder)), "securefedyj": str(own)}),
                    dst_node_id=2, message_type="query")  # fmt: skip
    run = Context(1, 1, {"partition-id": 2}, RecordDict(), {"securefedyj": str(own)})
    reply = client.app(asked, run)
    assert "A site cannot take part" in str(reply.content["securefedyj"]["reason"])
    assert (tmp_path / "securefedyj" / "2" / "securefedyj.log").exists()


def test_own_supernode_takes_an_app_without_code(folder):
    process.refuse_code(build_fab_from_disk(folder / "fit"), skip_prompt=True)


@pytest.mark.parametrize("name", ["client.py", "securefedyj/__init__.py", "numpy.py", "x.pth"])
def test_own_supernode_refuses_an_app_with_code(folder, name):
    fab = io.BytesIO(build_fab_from_disk(folder / "fit"))
    with zipfile.ZipFile(fab, "a") as bundle:
        bundle.writestr(name, "raise SystemExit")
    with pytest.raises(JobRefused, match=f"brings files of its own .'{name}'"):
        process.refuse_code(fab.getvalue())


def test_own_supernode_runs_its_own_app_whatever_the_run_names():
    load = process.own_app(default_app_ref="evil:app", app_path=None, multi_app=True)
    assert load("evil", "1.0.0", "00") is client.app


def test_own_supernode_replaces_all_that_runs_an_app(monkeypatch, tmp_path):
    monkeypatch.setattr(cli, "flwr_clientapp", lambda: None)
    for name in process.REPLACED:
        monkeypatch.setattr(run_clientapp, name, getattr(run_clientapp, name))
    process.main()
    assert run_clientapp.install_from_fab is process.refuse_code
    assert run_clientapp.get_load_client_app_fn is process.own_app
    supernode.write_commands(tmp_path)
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert set(written) == set(TASK_TYPE_TO_COMMAND.values())
    assert [name for name, text in written.items() if "exec" in text] == ["flwr-clientapp"]


def test_another_flower_is_refused(monkeypatch):
    monkeypatch.delattr(run_clientapp, "install_from_fab")
    with pytest.raises(SystemExit, match="runs apps in another way"):
        process.main()


@pytest.fixture
def started(monkeypatch):
    """What a SuperNode of ours has started; nothing of it runs, and PATH stays as it is."""
    started = list[str]()
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setattr(cli, "flower_supernode", lambda: started.append("supernode"))
    monkeypatch.setattr(cli, "flwr_clientapp", lambda: started.append("app"))
    return started


def without_guard(folder):
    """In place of our commands: none, so that Flower's own are found."""


def with_code_let_in(folder):
    """In place of our commands: our program, with one of the replaced parts left as it was."""
    program = folder / supernode.CLIENT_APP
    program.write_text(
        f"#!{sys.executable} -P\n"
        "from securefedyj.integrations.flower import process\n"
        "del process.REPLACED['install_from_fab']\n"
        "process.main()\n"
    )
    program.chmod(0o700)


@pytest.mark.processes
def test_supernode_starts_after_an_app_with_code_was_refused(started):
    supernode.main()
    assert started == ["supernode"]


@pytest.mark.processes
@pytest.mark.parametrize(
    ("commands", "why"),
    [(without_guard, "its code has run"), (with_code_let_in, "it ended with: ")],
)
def test_no_supernode_starts_where_code_is_not_refused(monkeypatch, started, commands, why):
    monkeypatch.setattr(supernode, "write_commands", commands)
    with pytest.raises(SystemExit, match=f"No SuperNode starts: .*{why}"):
        supernode.main()
    assert not started


def test_no_supernode_starts_where_nothing_can_be_shown(monkeypatch, started):
    def executor(*_: object) -> None:
        raise AttributeError("no such part")

    monkeypatch.setattr(rehearsal, "_executor", executor)
    with pytest.raises(SystemExit, match=r"No SuperNode starts: .*AttributeError: no such part"):
        supernode.main()
    assert not started
