"""What we do with FLARE's own classes, and what docs/flare.md says of them, in one process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import threading
import types

import pytest

from tests.integrations.flare import sites

pytest.importorskip("nvflare")

from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.fl_exception import UnsafeComponentError
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal
from nvflare.app_common.default_component_policy import DEFAULT_CLASS_ALLOW_LIST
from nvflare.app_common.widgets.component_path_authorizer import ComponentPathAuthorizer
from nvflare.private.admin_defs import Message
from nvflare.private.aux_runner import AuxMsgTarget, AuxRunner
from nvflare.private.fed.client.shell_cmd import ShellCommandProcessor
from nvflare.recipe import SimEnv

from securefedyj.integrations import job
from securefedyj.integrations.flare import executor as executors
from securefedyj.integrations.flare.executor import TASK, AuxBus, SecureFedYJExecutor
from securefedyj.integrations.flare.provision import ALLOWED, allow, close
from securefedyj.integrations.flare.recipe import SecureFedYJRecipe, result_of
from securefedyj.integrations.job import DIGEST, PARAMETERS, REASON, NoResult, named
from securefedyj.network.consortium import Consortium
from tests.patience import PATIENCE


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sites")
    sites.prepare(folder, sites.tables(1))
    sites.write_site(folder, "north", folder / "local")
    return folder


class Engine:
    """What a bus needs of FLARE's engine; the first message fails."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes]] = []
        self.failed = False
        self.open = threading.Event()
        self.open.set()

    @contextlib.contextmanager
    def new_context(self):
        yield None

    def fire_event(self, *_):
        pass

    def send_aux_request(self, *, targets, request, timeout, **_):
        self.open.wait(PATIENCE)
        assert timeout == 0.0  # fire and forget
        if not self.failed:
            self.failed = True
            raise ConnectionError
        self.sent.append((targets[0], request["packet"]))


# The bus.


def test_bus_goes_on_after_a_message_that_fails(monkeypatch):
    monkeypatch.setattr(executors, "_END", PATIENCE)

    async def run():
        engine = Engine()
        bus = AuxBus(engine)
        bus.post("south", b"one")
        bus.post("south", b"two")
        bus.close()
        assert engine.sent == [("south", b"two")]

    asyncio.run(run())


def test_bus_holds_packets_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(executors, "_MOST_OUTGOING", 5)
    monkeypatch.setattr(executors, "_MOST_INCOMING", 5)

    async def run():
        engine = Engine()
        engine.open.clear()
        bus = AuxBus(engine)
        taken = []
        bus.listen(lambda peer, packet: taken.append(packet))
        for _ in range(100):
            bus.post("south", b"")
            bus.deliver("south", Shareable({"packet": b""}))
        for peer, packet in [("south", "no bytes"), (["no name"], b""), (None, b"")]:
            bus.deliver(peer, Shareable({"packet": packet}))
        await asyncio.sleep(0)
        assert len(taken) == 5
        bus.deliver("south", Shareable({"packet": b"there is room again"}))
        await asyncio.sleep(0)
        assert taken[5:] == [b"there is room again"]
        engine.open.set()
        bus.close()
        assert len(engine.sent) <= 5

    asyncio.run(run())


# The recipe.


def test_a_job_that_failed_does_not_look_like_a_success(tmp_path):
    """FLARE returns a folder in any case."""

    def run(folder):
        return types.SimpleNamespace(
            get_result=lambda clean_up: folder, get_status=lambda: "FINISHED:ABORTED\x1b"
        )

    for folder in (None, str(tmp_path)):
        with pytest.raises(NoResult, match=r"FINISHED:ABORTED\\x1b") as failed:
            result_of(run(folder))
        assert failed.value.code == "SFY-FLARE-004"
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "log.txt").write_text("south refuses this job")
    with pytest.raises(NoResult, match=r"workspace/log\.txt, and what"):
        result_of(run(str(tmp_path)))
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "parameters.json").write_text("{}")
    assert result_of(run(str(tmp_path))) == tmp_path / "server" / "parameters.json"


# The executor.


@pytest.mark.parametrize("release", ["2.6.2", "2.7.1", "2.8.0rc1"])
def test_a_site_with_a_flare_that_builds_anything_takes_no_part(folder, monkeypatch, release):
    monkeypatch.setattr(job, "version", lambda name: release)
    reply = execute(folder, "north", named(Consortium.read(folder / "consortium.toml")))
    assert f"north has FLARE {release}" in reply[REASON]
    assert PARAMETERS not in reply


def execute(folder, client: str, digest: object, signal: Signal | None = None) -> Shareable:
    context = FLContext()
    workspace = types.SimpleNamespace(get_site_config_dir=lambda: str(folder))
    context.set_prop(FLContextKey.WORKSPACE_OBJECT, workspace)
    context.get_engine = Engine
    context.get_identity_name = lambda **_: client
    shareable = Shareable({DIGEST: digest})
    return SecureFedYJExecutor().execute(TASK, shareable, context, signal or Signal())


@pytest.mark.parametrize("digest", ["sha256:" + 64 * "0", "", None, 7, ["sha256"]])
def test_job_about_another_file_is_refused_for_all_to_read(folder, digest):
    reply = execute(folder / "local", "north", digest)
    assert "north refuses this job" in reply[REASON]
    assert PARAMETERS not in reply
    assert not (folder / "north" / "state.jsonl").exists()


def test_what_concerns_the_site_alone_stays_there(tmp_path):
    reply = execute(tmp_path, "north", "")
    assert reply[REASON].startswith("north cannot take part")
    assert str(tmp_path) not in reply[REASON]
    assert str(tmp_path) in (tmp_path / "securefedyj.log").read_text()


def test_signal_of_flare_ends_our_part(folder):
    signal = Signal()
    threading.Timer(0.5, signal.trigger, [True]).start()
    agreed = Consortium.read(folder / "consortium.toml")
    reply = execute(folder / "local", "north", named(agreed), signal)
    assert reply.get_return_code() == ReturnCode.TASK_ABORTED
    assert "FLARE has ended the job." in (folder / "north" / "securefedyj.log").read_text()


# The recipe.


def test_job_has_no_code_and_of_the_agreed_file_only_digest_and_names(folder, tmp_path):
    SecureFedYJRecipe(name="fit", consortium=folder / "consortium.toml").export(str(tmp_path))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json"}
    words = "".join(path.read_text() for path in files)
    agreed = Consortium.read(folder / "consortium.toml")
    assert named(agreed) in words
    assert "feature 0" not in words
    assert "CERTIFICATE" not in words
    assert str(folder) not in words


def test_recipe_allows_our_components_in_the_simulator_alone(folder, tmp_path):
    recipe = SecureFedYJRecipe(name="fit", consortium=folder / "consortium.toml")
    recipe.process_env(SimEnv(clients=["north"], workspace_root=str(tmp_path)))
    (found,) = tmp_path.rglob("resources.json*")
    allowed = json.loads(found.read_text())["class_allow_list"]
    assert set(ALLOWED) < set(allowed)
    assert len(allowed) > 10  # and what FLARE allows by default


# The kits.


def test_own_files_of_a_site_go_before_those_of_flare(tmp_path):
    (tmp_path / "resources.json.default").write_text('{"class_allow_list": ["theirs."]}')
    (tmp_path / "resources.json").write_text('{"class_allow_list": ["own."], "more": 1}')
    for _ in range(2):
        allow(tmp_path)
    own = json.loads((tmp_path / "resources.json").read_text())
    assert own == {"class_allow_list": ["own.", *ALLOWED], "more": 1}
    assert "securefedyj" not in (tmp_path / "resources.json.default").read_text()


def test_kits_allow_what_a_job_needs_and_nothing_else_of_ours(folder, tmp_path):
    allow(tmp_path)
    authorizer = ComponentPathAuthorizer()
    workspace = types.SimpleNamespace(
        get_resources_file_path=lambda: str(tmp_path / "resources.json.default")
    )
    SecureFedYJRecipe(name="fit", consortium=folder / "consortium.toml").export(str(tmp_path))
    used = set(re.findall(r'"path": "(securefedyj[^"]*)"', _text_of(tmp_path)))
    assert used == set(ALLOWED)
    for path in used:
        authorizer.authorize_component_config({"path": path}, workspace=workspace)
    for name in (
        "provision.allow",
        "provision.write_atomically",
        "site.read_site",
        "executor.AuxBus",
    ):
        other = {"path": f"securefedyj.integrations.flare.{name}"}
        with pytest.raises(UnsafeComponentError, match="is not in allow_list"):
            authorizer.authorize_component_config(other, workspace=workspace)


def _text_of(folder) -> str:
    return "".join(path.read_text() for path in folder.rglob("config_*.json"))


def test_closed_sites_give_nobody_the_rights_to_bring_code_and_to_read_files(tmp_path):
    from nvflare.fuel.sec.authz import AuthzContext, Person
    from nvflare.security.security import FLAuthorizer

    lead = {"byoc": "any", "view": "any", "cat": "any"}
    policy = {"project_admin": "any", "lead": lead, "member": ["o:site"]}
    path = tmp_path / "authorization.json.default"
    path.write_text(json.dumps({"format_version": "1.0", "permissions": policy}))

    def rights(role: str) -> set[str]:
        authorizer = FLAuthorizer("org", json.loads(path.read_text()))
        user = Person("somebody", "org", role)
        asked = ("byoc", "cat", "ls", "abort_job", "submit_job", "check_status")
        return {
            right
            for right in asked
            if authorizer.authorize(AuthzContext(right=right, user=user, submitter=user))[0]
        }

    assert rights("project_admin") >= {"byoc", "cat", "ls"}
    close(tmp_path)
    assert rights("project_admin") == {"abort_job", "submit_job", "check_status"}
    assert rights("lead") == {"check_status"}
    assert rights("member") == {"abort_job", "submit_job", "check_status"}


# What the page says about FLARE 2.9, and a later version may do better.


def test_client_of_flare_lets_its_server_read_any_file(tmp_path):
    secret = tmp_path / "north.key"
    secret.write_text("a key")
    request = Message(topic="shell", body=f"cat {secret}")
    assert ShellCommandProcessor().process(request, None).body == "a key"


def test_job_without_code_may_name_any_folder_to_a_component_of_flare(tmp_path):
    loader = {
        "path": "nvflare.app_opt.xgboost.histogram_based_v2.csv_data_loader.CSVDataLoader",
        "args": {"folder": "/srv/securefedyj"},
    }
    resources = tmp_path / "resources.json"
    workspace = types.SimpleNamespace(get_resources_file_path=lambda: str(resources))
    for kept, allowed in ((DEFAULT_CLASS_ALLOW_LIST, True), ([], False)):
        resources.write_text(json.dumps({"class_allow_list": [*kept, *ALLOWED]}))
        refused = contextlib.nullcontext() if allowed else pytest.raises(UnsafeComponentError)
        with refused:
            ComponentPathAuthorizer().authorize_component_config(loader, workspace=workspace)


def test_flare_does_not_encrypt_what_nobody_answers(monkeypatch):
    calls = []
    cell = types.SimpleNamespace(fire_and_forget=lambda **options: calls.append(options))
    runner = AuxRunner(types.SimpleNamespace(get_cell=lambda: cell))
    monkeypatch.setattr(AuxRunner, "_get_target_fqcn", staticmethod(lambda target, _: target.fqcn))
    target = AuxMsgTarget("south", "south")
    runner.send_aux_request([target], "topic", Shareable(), 0.0, FLContext(), secure=True)
    assert len(calls) == 1
    assert "secure" not in calls[0]
