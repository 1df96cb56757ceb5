"""The pages of `securefedyj desk`; their HTML is in the folder templates."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from securefedyj.cli import check
from securefedyj.cli.desk_work import Examination, Job, examined_before, take_part
from securefedyj.cli.display import sentence_of
from securefedyj.cli.local_site import REPORT_POLICY, Answer, see
from securefedyj.cli.options import renamed
from securefedyj.errors import InputError
from securefedyj.files import read_within
from securefedyj.joining.options import DECLARED, JoinOptions
from securefedyj.joining.site import FILE, checked, read_entries
from securefedyj.network.forecast import DELAY_MS, MBIT
from securefedyj.report import templates
from securefedyj.strict import Malformed
from securefedyj.tables.formats import FORMATS

_FILES = {
    "consortium": ("Agreed file", (".toml",)),
    "data": ("Your table", tuple(FORMATS)),
    "certificate": ("Your certificate", (".pem",)),
    "key": ("Your private key", (".key",)),
    "output": ("Folder for the result", ()),
}
"""What everybody chooses, with the endings of such files; the page hides other options at first."""
_WORKS = {
    "check": ("Check", ""),
    "join": ("Run", "Start"),
    "submit": ("Submission", "Submit"),
    "result": ("Result", "Fetch the result"),
    "connect": ("Connection", "Test the connection"),
}
"""What can be under way: the title of its page, and the button that starts it."""
_BESIDE = {"key": ("certificate", ".pem"), "certificate": ("key", ".key")}
_MOST_FILES = 1000  # of a folder that are shown
_MOST_REPORT = 1 << 28  # bytes


class Desk:
    """What one person has chosen, and the work under way."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}  # what is in the form
        self._job: Job | None = None
        self._ready: Examination | None = None
        self._lock = threading.Lock()
        with contextlib.suppress(ValueError, OSError):
            self._fill(read_entries(Path(FILE)))

    def end(self) -> None:
        if self._job is not None:
            self._job.end()

    def answer(self, method: str, page: str, fields: Mapping[str, str]) -> Answer | None:
        """One page, or what a button does."""
        does = getattr(self, f"_{method.lower()}_{page or 'choice'}", None)
        if does is None:
            return None
        with self._lock:
            try:
                answer: Answer = does(fields)
            except (OSError, ValueError) as error:
                answer = self._get_choice({}, sentence_of(error))
            return answer

    # Pages

    def _get_choice(self, fields: Mapping[str, str], error: str = "") -> Answer:
        more = [one for one in DECLARED.values() if one.name not in _FILES]
        return _page("choice", texts=self._texts, files=_FILES, declared=DECLARED, more=more,
                     error=error, job=self._job, works=_WORKS)  # fmt: skip

    def _get_folder(self, fields: Mapping[str, str]) -> Answer:
        """The files of a folder, to choose one for a field."""
        field = fields.get("field", "")
        if field not in _FILES:
            return see("")
        title, endings = _FILES[field]
        chosen = (self._texts.get(name) for name in (field, "consortium", "data"))
        near = next((Path(text).parent for text in chosen if text), Path.cwd())
        folder = Path(fields.get("folder") or near).resolve()
        entries = sorted(folder.iterdir(), key=lambda path: path.name.lower())
        # Keys may be in a hidden folder, as `keygen --help` advises.
        seen = [path for path in entries if field in _BESIDE or not path.name.startswith(".")]
        folders = [path for path in seen if path.is_dir()]
        files = [path for path in seen if path.name.lower().endswith(endings) and path.is_file()]
        return _page("folder", field=field, title=title, folder=folder,
                     folders=folders[:_MOST_FILES], files=files[:_MOST_FILES],
                     cut=max(len(folders), len(files)) > _MOST_FILES,
                     whole=field in ("data", "output"), link=_link)  # fmt: skip

    def _get_work(self, fields: Mapping[str, str]) -> Answer:
        """The work under way, or what became of it."""
        job, ready = self._job, self._ready
        if job is None:
            return see("")
        revealed = {} if ready is None else ready.revealed()
        return _page("work", job=job, ready=ready, works=_WORKS, header=check.HEADER,
                     about=check.ABOUT, delay=DELAY_MS, mbit=MBIT, **revealed)  # fmt: skip

    def _get_report(self, fields: Mapping[str, str]) -> Answer | None:
        """The report of the run, away from this site: it has a script."""
        if self._ready is None:
            return None
        content = read_within(self._ready.report, _MOST_REPORT).decode()
        return Answer(content, policy=REPORT_POLICY)

    def _get_style(self, fields: Mapping[str, str]) -> Answer:
        styles = (("securefedyj.report", "report.css"), (__package__, "desk.css"))
        texts = (templates(package).get_template(name).render() for package, name in styles)
        return Answer("\n".join(texts), "text/css")

    # Buttons

    def _post_folder(self, fields: Mapping[str, str]) -> Answer:
        """Keep what is in the form, and look for a file."""
        self._keep(fields)
        return see(_link("folder", field=fields.get("field", "")))

    def _post_pick(self, fields: Mapping[str, str]) -> Answer:
        """Choose a file for a field, and what stands beside it for others."""
        field, path = fields.get("field", ""), Path(fields.get("path", ""))
        self._keep({field: str(path)})
        if field == "data" and (path.parent / FILE).exists():
            self._fill(read_entries(path.parent / FILE))
        if field in _BESIDE:
            other, ending = _BESIDE[field]
            if (beside := path.with_suffix(ending)).exists():
                self._fill({other: beside})
        if field == "consortium":
            self._fill({"output": path.with_name(f"{path.stem}-result")})
        return see("")

    def _post_check(self, fields: Mapping[str, str]) -> Answer:
        self._keep(fields)
        options = _options(self._texts)

        def work(job: Job) -> None:
            self._ready = examined_before(options)

        return self._begin("check", work)

    def _post_start(self, fields: Mapping[str, str]) -> Answer:
        ready, what = self._ready, fields.get("what", "")
        if ready is None or what not in ready.can or (ready.examined and ready.examined.stops):
            return see("")
        return self._begin(what, lambda job: take_part(ready, what, job))

    def _post_stop(self, fields: Mapping[str, str]) -> Answer:
        if self._job is not None:
            self._job.stopping = True
        return see("work")

    def _begin(self, what: str, work: Callable[[Job], None]) -> Answer:
        """Begin some work, unless there is some under way."""
        if self._job is None or not self._job.running:
            if what == "check":
                self._ready = None
            self._job = Job(what, work)
        return see("work")

    def _keep(self, fields: Mapping[str, str]) -> None:
        for name in DECLARED.keys() & fields.keys():
            self._texts[name] = fields[name].strip()

    def _fill(self, entries: Mapping[str, Any]) -> None:
        """Fill in what is not chosen."""
        for name, value in entries.items():
            if not self._texts.get(name):
                self._texts[name] = _text(value)


def _options(texts: Mapping[str, str]) -> JoinOptions:
    """What is in the form, checked like the site's own file."""
    values = {name: _value(DECLARED[name].kind, text) for name, text in texts.items() if text}
    lacking = [_FILES[name][0] for name in _FILES if DECLARED[name].required and name not in values]
    if lacking:
        raise InputError("SFY-CLI-041", f"Choose these, too: {', '.join(lacking)}.")
    try:
        return JoinOptions.of(checked(values, Path.cwd(), "the form"))
    except Malformed as error:
        raise InputError("SFY-CLI-042", f"{error}") from None


def _value(kind: type, text: str) -> Any:
    """What a text stands for; one that is no number stays as it is, and is refused."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if kind is dict:
        return renamed(lines)
    if kind is Path:
        return os.path.expanduser(text)  # elsewhere the shell does that
    with contextlib.suppress(ValueError):
        return kind(text) if kind in (int, float) else lines if kind is tuple else text
    return text


def _text(value: Any) -> str:
    """A value as the form shows it."""
    if isinstance(value, Mapping):
        value = [f"{here}={agreed}" for here, agreed in value.items()]
    return "\n".join(value) if isinstance(value, list | tuple) else str(value)


def _page(name: str, **shown: Any) -> Answer:
    return Answer(templates(__package__).get_template(f"desk-{name}.html").render(shown))


def _link(page: str, **fields: object) -> str:
    return f"{page}?{urlencode({name: str(value) for name, value in fields.items()})}"
