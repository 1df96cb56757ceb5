"""`securefedyj desk`: check, join and report as pages in the browser of the person at this machine.

The pages do what the commands do, with the same functions. The HTML is in the folder templates.
"""

from __future__ import annotations

import argparse
import contextlib
import html
import signal
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from securefedyj.cli import check
from securefedyj.cli.display import TOO_LARGE, sentence_of, tell
from securefedyj.cli.local_site import REPORT_POLICY, Answer, LocalSite, see
from securefedyj.cli.options import Commands, command, flag, renamed
from securefedyj.errors import InputError
from securefedyj.joining.options import DECLARED, JoinOptions
from securefedyj.joining.site import FILE, checked, read_entries
from securefedyj.network.consortium import ENGINE, Consortium, PartyEntry
from securefedyj.network.forecast import DELAY_MS, MBIT, Forecast, bytes_per_second, forecast
from securefedyj.network.session.events import Progress
from securefedyj.protocol.audit import opened
from securefedyj.protocol.secrecy import secrecy_of
from securefedyj.strict import Malformed
from securefedyj.tables.cells import MISSING
from securefedyj.tables.formats import FORMATS

_TITLES = {
    "consortium": "Agreed file",
    "data": "Your table",
    "certificate": "Your certificate",
    "key": "Your private key",
    "output": "Folder for the result",
}
"""The options that everybody gives; the page hides the others at first."""
_ENDINGS = {
    "consortium": (".toml",),
    "data": tuple(FORMATS),
    "certificate": (".pem",),
    "key": (".key",),
    "output": (),
}
_BESIDE = {"key": ("certificate", ".pem"), "certificate": ("key", ".key")}
_MOST_FILES = 1000  # of a folder that are shown
_MOST_REPORT = 1 << 28  # bytes


def add(commands: Commands) -> None:
    summary = "take part in a run with a web browser instead of the other commands"
    more = (
        "The page is for the person at this machine: it is served at 127.0.0.1, below an address "
        "that nobody can guess."
    )
    parser = command(commands, "desk", run, summary, "securefedyj desk", more)
    flag(parser, "--no-browser", "only print the address of the page")


def run(options: argparse.Namespace) -> None:
    desk = Desk()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with LocalSite(desk.answer) as site, tempfile.TemporaryDirectory() as folder:
        tell("Open this page in your browser, and keep its address to yourself:")
        tell(f"  {site.url}")
        tell("Press Ctrl-C here when you are done.")
        if not options.no_browser:
            # By a file that only we can read: all users of a machine see the arguments of programs.
            page = Path(folder, "desk.html")
            page.write_text(f'<meta http-equiv="refresh" content="0; url={html.escape(site.url)}">')
            webbrowser.open(page.as_uri())
        try:
            site.serve_forever()
        finally:
            desk.end()


class Job:
    """Work in a thread, which a page watches."""

    def __init__(self, title: str, work: Callable[[Job], None]) -> None:
        self.title, self._work = title, work
        self.said: list[tuple[str, str]] = []
        """Sentences, each with its weight."""
        self.progress: Progress | None = None
        self.rows = ""
        self.running, self.stopping, self.failure = True, False, ""
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def say(self, sentence: str) -> None:
        weight = "warning" if sentence.startswith("Warning: ") else "note"
        if (weight, sentence) not in self.said[-1:]:  # such as failures to reach the hub
            self.said.append((weight, sentence))

    def show(self, progress: Progress) -> None:
        self.progress = progress

    def count(self, done: str, count: int, total: int | None) -> None:
        self.rows = f"{count:,}{'' if total is None else f' of {total:,}'} rows {done}"

    def end(self) -> None:
        self.stopping = True
        self._thread.join()

    def _run(self) -> None:
        from securefedyj.joining.run import Cancelled

        try:
            self._work(self)
        except Cancelled:
            self.failure = "You have left the run. Start again resumes it."
        except (OSError, ValueError) as error:
            self.failure = sentence_of(error)
        except (MemoryError, RecursionError, OverflowError):
            self.failure = TOO_LARGE
        except BaseException:
            self.failure = "This is a bug. The window in which you started the desk shows where."
            raise
        finally:
            self.running = False


class Ready(NamedTuple):
    """A party that may take part: what it has chosen, and what it should know before."""

    options: JoinOptions
    consortium: Consortium
    party: PartyEntry
    examined: check.Examined | None
    """None for a helper."""
    plan: Forecast | None
    """None where there is no forecast."""

    @property
    def report(self) -> Path:
        return self.options.output / "report.html"


class Desk:
    """What one person has chosen, and the work under way."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}  # what is in the form
        self._job: Job | None = None
        self._ready: Ready | None = None
        self._lock = threading.Lock()
        with contextlib.suppress(ValueError, OSError):
            self._fill(read_entries(Path(FILE)))

    def end(self) -> None:
        """Leave a run as after Ctrl-C."""
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
                answer = self._choice(sentence_of(error))
            return answer

    # Pages

    def _get_choice(self, fields: Mapping[str, str]) -> Answer:
        return self._choice("")

    def _choice(self, error: str) -> Answer:
        more = [one for one in DECLARED.values() if one.name not in _TITLES]
        return _page("choice", texts=self._texts, titles=_TITLES, declared=DECLARED, more=more,
                     error=error, job=self._job)  # fmt: skip

    def _get_folder(self, fields: Mapping[str, str]) -> Answer:
        """The files of a folder, to choose one for a field."""
        field = fields.get("field", "")
        if field not in _TITLES:
            return self._choice("")
        chosen = (self._texts.get(name) for name in (field, "consortium", "data"))
        near = next((Path(text).expanduser().parent for text in chosen if text), Path.cwd())
        folder = Path(fields.get("folder") or near).resolve()
        entries = sorted(folder.iterdir(), key=lambda path: path.name.lower())
        seen = [path for path in entries if not path.name.startswith(".")]
        folders = [path for path in seen if path.is_dir()]
        files = [path for path in seen if path.name.lower().endswith(_ENDINGS[field])]
        files = [path for path in files if path not in folders]
        return _page("folder", field=field, title=_TITLES[field], folder=folder,
                     folders=folders[:_MOST_FILES], files=files[:_MOST_FILES],
                     cut=max(len(folders), len(files)) > _MOST_FILES,
                     whole=field in ("data", "output"), link=_link)  # fmt: skip

    def _get_work(self, fields: Mapping[str, str]) -> Answer:
        """The work under way, or what became of it."""
        job, ready = self._job, self._ready
        if job is None:
            return see("")
        shown: dict[str, Any] = {"job": job, "ready": ready}
        if ready is not None:
            agreement, secrecy = ready.consortium.agreement(), secrecy_of(ready.consortium.engine)
            silos = len(ready.consortium.silos)
            shown |= {"opened": opened(agreement), "secrecy": secrecy, "header": check.HEADER,
                      "collusion": secrecy.collusion(ready.consortium.committee, silos),
                      "about": check.ABOUT, "delay": DELAY_MS, "mbit": MBIT}  # fmt: skip
        return _page("work", **shown)

    def _get_report(self, fields: Mapping[str, str]) -> Answer | None:
        """The report of the run, away from this site: it has a script."""
        from securefedyj.files import read_within

        if self._ready is None:
            return None
        content = read_within(self._ready.report, _MOST_REPORT).decode()
        return Answer(content, policy=REPORT_POLICY)

    def _get_style(self, fields: Mapping[str, str]) -> Answer:
        from securefedyj.report import templates

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
            self._ready = _examined(options)

        return self._begin("Check", work)

    def _post_join(self, fields: Mapping[str, str]) -> Answer:
        from securefedyj.joining.call import join

        ready = self._ready
        if ready is None or (ready.examined is not None and ready.examined.stops):
            return see("")

        def work(job: Job) -> None:
            join(**ready.options.arguments(), say=job.say, progress=job.show, rows=job.count,
                 cancelled=lambda: job.stopping)  # fmt: skip

        return self._begin("Run", work)

    def _post_stop(self, fields: Mapping[str, str]) -> Answer:
        if self._job is not None:
            self._job.stopping = True
        return see("work")

    def _begin(self, title: str, work: Callable[[Job], None]) -> Answer:
        """Begin some work, unless there is some under way."""
        if self._job is None or not self._job.running:
            if title == "Check":
                self._ready = None
            self._job = Job(title, work)
        return see("work")

    def _keep(self, fields: Mapping[str, str]) -> None:
        for name in DECLARED.keys() & fields.keys():
            self._texts[name] = fields[name].strip()

    def _fill(self, entries: Mapping[str, Any]) -> None:
        """Fill in what is not chosen."""
        for name, value in entries.items():
            if not self._texts.get(name):
                self._texts[name] = _text(value)


def _examined(options: JoinOptions) -> Ready:
    from securefedyj.joining.run import JoinRun

    run, examined = JoinRun(options), None  # it refuses what could not take part
    consortium = run.consortium
    if options.data is not None:
        reading = ((*MISSING, *options.missing), options.dialect)
        given = (options.data, reading, options.ledger)
        examined = check.examine(consortium, *given, without=options.without)
    plan = None
    if consortium.engine == ENGINE:
        rows = 1 if examined is None else max(1, examined.checked.rows)
        (plan,) = forecast(
            consortium,
            rows=rows,
            delay=DELAY_MS / 1e3,
            bytes_per_second=bytes_per_second(MBIT),
            levels=(consortium.levels_per_exchange,),
        ).forecasts
    return Ready(options, consortium, run.party, examined, plan)


def _options(texts: Mapping[str, str]) -> JoinOptions:
    """What is in the form, checked like the site's own file."""
    values = {name: _value(DECLARED[name].kind, text) for name, text in texts.items() if text}
    lacking = [_TITLES[name] for name in _TITLES if DECLARED[name].required and name not in values]
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
    with contextlib.suppress(ValueError):
        return kind(text) if kind in (int, float) else lines if kind is tuple else text
    return text


def _text(value: Any) -> str:
    """A value as the form shows it."""
    if isinstance(value, Mapping):
        value = [f"{here}={agreed}" for here, agreed in value.items()]
    return "\n".join(value) if isinstance(value, list | tuple) else str(value)


def _page(name: str, **shown: Any) -> Answer:
    from securefedyj.report import templates  # Jinja2 takes a while to import

    return Answer(templates(__package__).get_template(f"desk-{name}.html").render(shown))


def _link(page: str, **fields: object) -> str:
    return f"{page}?{urlencode({name: str(value) for name, value in fields.items()})}"
