"""What goes to a site and what comes back, and what is refused; without Flower."""

from __future__ import annotations

import dataclasses
import re
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from securefedyj.integrations import flower
from securefedyj.integrations.flower import process, supernode, template
from securefedyj.integrations.job import LOG, Answers, NoResult, answer, named
from securefedyj.network import lines
from tests.integrations.flower import sites

PARTIES = ["north", "south"]


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "sites"
    folder.mkdir()
    sites.prepare(folder, sites.tables(1))
    return folder


@pytest.fixture
def consortium(folder):
    return sites.agreed(folder)


def test_run_about_another_agreed_file_is_refused(folder, consortium):
    altered = dataclasses.replace(consortium, result_bits=44)
    back = answer({"digest": named(altered)}, sites.file_of(folder, "south"))
    assert set(back) == {"party", "reason"}
    assert "south refuses this job: it is about an agreed file with another" in str(back["reason"])
    assert not (folder / "south" / "state.jsonl").exists()


@pytest.mark.parametrize("asked", [{}, {"digest": 3}, {"digest": "sha256:"}])
def test_run_without_a_digest_is_refused(folder, asked):
    back = answer(asked, sites.file_of(folder, "south"))
    assert "south refuses this job" in back["reason"]


def test_server_that_swaps_two_sites_is_refused(folder, consortium):
    asked = {"digest": named(consortium), "party": "north"}
    back = answer(asked, sites.file_of(folder, "south"))
    sentence = "south refuses this run: the server takes this site for 'north'."
    assert str(back["reason"]).startswith(sentence)


def test_what_a_site_stumbles_over_stays_there(folder, consortium):
    table = folder / "west.csv"
    table.write_text(table.read_text().replace("\n", "\nsecret 4711\n", 1))
    back = answer({"digest": named(consortium)}, sites.file_of(folder, "west"))
    assert back == {
        "party": "west",
        "reason": f"west cannot take part; why is in {LOG} there, and nowhere else.",
    }
    assert "secret 4711" in (folder / "west" / LOG).read_text()


def test_proxy_of_a_site_is_told_to_nobody(folder, consortium):
    class Refusing(BaseHTTPRequestHandler):
        def do_CONNECT(self):
            self.send_error(403)

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{proxy.server_port}"
        file = sites.file_of(folder, "south")
        own = folder / "proxied.toml"
        own.write_text(f'{file.read_text()}proxy = "http://{address}"\n')
        back = answer({"digest": named(consortium)}, own)
        proxy.shutdown()
    assert "south cannot take part" in str(back["reason"])
    assert f"The proxy at {address} blocked the connection" in (folder / "south" / LOG).read_text()
    assert (folder / "south" / LOG).stat().st_mode & 0o077 == 0


def test_site_without_a_file_says_so_at_home(tmp_path):
    back = answer({"digest": "sha256:"}, tmp_path / "securefedyj.toml")
    assert "A site cannot take part" in back["reason"]
    assert str(tmp_path) not in back["reason"]
    assert "There is no " in (tmp_path / LOG).read_text()


def test_site_that_can_write_nowhere_says_no_more(tmp_path):
    (tmp_path / "file").touch()
    back = answer({"digest": "sha256:"}, tmp_path / "file" / "securefedyj.toml")
    assert "A site cannot take part" in str(back["reason"])


def test_result_is_what_all_parties_return():
    answers = Answers(PARTIES)
    for name in PARTIES:
        answers.take({"party": name, "parameters": b"{}"})
    assert answers.result() == b"{}"


def test_parties_with_different_results_have_none():
    answers = Answers(PARTIES)
    answers.take({"party": "north", "parameters": b"{}"})
    answers.take({"party": "south", "parameters": b"[]"})
    with pytest.raises(NoResult, match="did not return the same parameters"):
        answers.result()


def test_party_that_does_not_answer_is_named():
    answers = Answers(PARTIES)
    answers.take({"party": "north", "parameters": b"{}"})
    with pytest.raises(NoResult, match=r"^south did not return a result in time"):
        answers.result()


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"party": "north", "parameters": b"{}"}, "Two sites say that they are north"),
        ({"party": "east", "parameters": b"{}"}, "it is 'east', which is no party"),
        ({"party": ["north"], "parameters": b"{}"}, "which is no party"),
        ({"party": "south", "reason": "south\x1b[2J"}, r"^south\\x1b\[2J$"),
        ({"party": "south", "reason": "no", "parameters": b"{}"}, "^no$"),
        ({"party": "south", "parameters": "{}"}, "'south' has no result"),
        ({}, "None has no result"),
    ],
)
def test_other_answers_end_the_run(said, sentence):
    answers = Answers(PARTIES)
    answers.take({"party": "north", "parameters": b"{}"})
    with pytest.raises(NoResult, match=sentence):
        answers.take(said)


def test_template_has_the_digest_and_no_code(folder, consortium, capsys):
    app = folder / "fit"
    assert template.main([str(folder / "consortium.toml"), str(app)]) == 0
    (file,) = app.iterdir()
    config = tomllib.loads(file.read_text())["tool"]["flwr"]["app"]["config"]
    assert config["digest"] == named(consortium)
    assert config["parties"] == "north, south, west"
    assert "CERTIFICATE" not in file.read_text()
    assert template.main([str(folder / "consortium.toml"), str(app)]) == 1
    assert "nothing is replaced" in capsys.readouterr().err


def test_only_five_modules_need_flower():
    """Neither `import securefedyj` nor the command line may load it."""
    five = {"client", "server", "supernode", "process", "rehearsal"}
    flwr = re.compile(r"^\s*(from|import) flwr\b", re.MULTILINE)
    ours = re.compile(rf"integrations\.flower(\.| import )({'|'.join(five)})\b")
    package = Path(flower.__path__[0])
    for path in package.parents[1].rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        needs = path.parent == package and path.stem in five
        assert bool(flwr.search(text)) == needs, path
        assert needs or path.name == "template.py" or not ours.search(text), path


@pytest.mark.parametrize("main", [supernode.main, process.main])
@pytest.mark.parametrize("found", ["1.40.9", "1.410.0", "2.41.0"])
def test_flower_that_was_not_tested_is_refused(monkeypatch, main, found):
    monkeypatch.setattr(process, "version", lambda name: found)
    with pytest.raises(SystemExit, match=rf"flwr {found} is installed.*tested with flwr 1\.41"):
        main()


def test_without_flower_there_is_no_supernode(monkeypatch):
    def absent(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(process, "version", absent)
    with pytest.raises(SystemExit, match=r"This needs flwr 1\.41"):
        supernode.main()


def test_no_supernode_starts_where_files_cannot_be_locked(monkeypatch):
    monkeypatch.setattr(lines, "fcntl", None)
    with pytest.raises(SystemExit, match="This system cannot lock files"):
        supernode.main()


def test_extra_installs_what_was_tested():
    file = Path(__file__).parents[3] / "pyproject.toml"
    project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    (extra,) = project["optional-dependencies"]["flower"]
    first, above = re.fullmatch(r"flwr>=1\.(\d+),<1\.(\d+)", extra).groups()
    assert tuple(f"1.{minor}" for minor in range(int(first), int(above))) == process.TESTED
