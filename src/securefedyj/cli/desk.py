"""`securefedyj desk`: check, join, submit and report as pages in a browser, for one person."""

from __future__ import annotations

import argparse
import html
import os
import signal
import tempfile
import webbrowser
from pathlib import Path

from securefedyj.cli.display import tell
from securefedyj.cli.options import Commands, command, flag


def add(commands: Commands) -> None:
    summary = "take part in a run with a web browser instead of the other commands"
    more = (
        "The page is for the person at this machine: it is served at 127.0.0.1, below an address "
        "that nobody can guess."
    )
    parser = command(commands, "desk", run, summary, "securefedyj desk", more)
    flag(parser, "--no-browser", "only print the address of the page")


def run(options: argparse.Namespace) -> None:
    from securefedyj.cli.desk_pages import Desk  # what takes long to import
    from securefedyj.cli.local_site import LocalSite

    desk = Desk()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    home = Path.home() if os.access(Path.home(), os.W_OK) else None  # some browsers read no other
    with (
        LocalSite(desk.answer) as site,
        tempfile.TemporaryDirectory(prefix="securefedyj-", dir=home) as folder,
    ):
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
