"""A SuperNode that runs only the code that its site has installed, none that comes with a run.

    python -m securefedyj.integrations.flower.supernode --superlink HOST:PORT ...

takes the options of `flower-supernode`. Flower's own runs the app of a run's submitter with all
rights of the SuperNode; here `process` takes its place. Before the SuperNode starts, `rehearsal`
checks that an app with code is refused.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from pathlib import Path

from securefedyj.integrations.flower.process import check_version
from securefedyj.network.errors import OwnTrouble
from securefedyj.network.lines import require_locks

CLIENT_APP = "flwr-clientapp"
_OURS = """\
#!/bin/sh
exec {python} -P -m securefedyj.integrations.flower.process "$@"
"""
_REFUSED = """\
#!/bin/sh
echo "This site does not run {command}: it takes part only in runs of securefedyj." >&2
exit 1
"""


def write_commands(folder: Path) -> None:
    """Write what a SuperNode starts by name: `process` for a ClientApp, a refusal for others."""
    from flwr.supercore.constant import TASK_TYPE_TO_COMMAND

    for command in TASK_TYPE_TO_COMMAND.values():
        text = _OURS if command == CLIENT_APP else _REFUSED
        path = folder / command
        path.write_text(text.format(python=shlex.quote(sys.executable), command=command))
        path.chmod(0o700)


def main() -> None:
    """Take the options of `flower-supernode`."""
    try:
        require_locks()
    except OwnTrouble as error:
        sys.exit(str(error))
    check_version()  # before anything of Flower is imported that another version may not have
    from flwr.supernode.cli import flower_supernode

    from securefedyj.integrations.flower.rehearsal import NotGuarded, rehearse

    with tempfile.TemporaryDirectory(prefix="securefedyj-") as folder:
        write_commands(Path(folder))
        scripts = str(Path(sys.executable).parent)  # where flower-superexec is
        before = os.environ.get("PATH", os.defpath)
        os.environ["PATH"] = os.pathsep.join([folder, scripts, before])
        try:
            rehearse()
        except NotGuarded as error:
            sys.exit(f"No SuperNode starts: an app with code was not refused here ({error}).")
        flower_supernode()


if __name__ == "__main__":
    main()
