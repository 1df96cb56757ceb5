"""A site's own file, and the jobs that it refuses; without FLARE."""

from __future__ import annotations

import dataclasses

import pytest

from securefedyj.integrations.job import (
    LOG,
    JobRefused,
    check_job,
    difference,
    named,
    notes,
    site_in,
)
from securefedyj.joining.site import SiteError
from tests.integrations.flare import sites
from tests.refusals import refused


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sites")
    sites.prepare(folder, sites.tables(1))
    for name in ("north", "south"):
        sites.write_site(folder, name, folder / "local" / name)
    sites.write_site(folder, "north", folder / "local")
    return folder


@pytest.fixture(scope="module")
def consortium(folder):
    from securefedyj.network.consortium import Consortium

    return Consortium.read(folder / "consortium.toml")


def test_site_reads_its_own_file(folder):
    site = site_in(folder / "local", "south")
    assert site.key == folder / "south.key"
    assert site.output == folder / "south"
    assert site.missing == ()
    assert (site.timeout, site.wait) == (60.0, 600.0)
    assert site_in(folder / "local", "anybody").key == folder / "north.key"


def test_paths_are_relative_to_the_file(tmp_path):
    words = 'consortium = "c.toml"\nkey = "k"\ncertificate = "c"\noutput = "o"\nmissing = ["?"]\n'
    (tmp_path / "securefedyj.toml").write_text(words)
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit" / "securefedyj.toml").symlink_to(tmp_path / "securefedyj.toml")
    assert site_in(tmp_path / "kit", "north") == site_in(tmp_path, "north")
    site = site_in(tmp_path, "north")
    assert (site.consortium, site.data) == (tmp_path / "c.toml", None)
    assert site.missing == ("?",)


@pytest.mark.parametrize(
    ("words", "code", "value"),
    [
        (None, "SFY-SITE-002", "securefedyj.toml"),
        ("key =", "SFY-SITE-003", "securefedyj.toml"),
        ('keys = "k"\n', "SFY-SITE-005", "'keys'"),
        ('key = "k"\n', "SFY-SITE-001", "'consortium'"),
        ("missing = [1]\n", "SFY-SITE-005", "missing"),
        ("wait = 0\n", "SFY-SITE-005", "wait"),
        ("timeout = true\n", "SFY-SITE-005", "timeout"),
    ],
)
def test_other_files_are_refused(tmp_path, words, code, value):
    whole = 'consortium = "c"\nkey = "k"\ncertificate = "c"\noutput = "o"\n'
    if words is not None:
        head = "" if words.startswith("key") else whole
        (tmp_path / "securefedyj.toml").write_text(head + words)
    with refused(code, SiteError) as caught:
        site_in(tmp_path, "north")
    assert value in str(caught.value)


def test_job_must_be_about_the_agreed_file(folder, consortium):
    site = site_in(folder / "local", "south")
    assert check_job(site, "south", named(consortium)) == consortium
    altered = dataclasses.replace(consortium, result_bits=44)
    with pytest.raises(JobRefused, match="south refuses this job: it is about an agreed file with"):
        check_job(site, "south", named(altered))


def test_site_must_have_the_name_of_its_party(folder, consortium):
    site = site_in(folder / "local", "south")
    with pytest.raises(JobRefused, match="south refuses this job: FLARE calls this site 'north'"):
        check_job(site, "north", named(consortium))


def test_notes_are_lines_that_control_nothing(tmp_path):
    notes(tmp_path)("one\x1b[2J")
    (line,) = (tmp_path / LOG).read_text().splitlines()
    assert line.endswith(r"one\x1b[2J")


@pytest.mark.parametrize(
    ("results", "sentence"),
    [
        ({"north": b"1", "south": b"1"}, ""),
        ({"north": b"1"}, "south did not return a result in time"),
        ({"north": b"1", "south": b"2"}, "did not return the same parameters"),
    ],
)
def test_parties_must_all_have_returned_the_same(results, sentence):
    said = difference(["north", "south"], results)
    assert sentence in said
    assert bool(said) == bool(sentence)
