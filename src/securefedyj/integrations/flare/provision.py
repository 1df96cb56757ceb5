"""What FLARE's startup kits need for our jobs, as a builder of a project.yml; docs/flare.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nvflare.app_common.default_component_policy import DEFAULT_CLASS_ALLOW_LIST
from nvflare.lighter.ctx import ProvisionContext
from nvflare.lighter.entity import Project
from nvflare.lighter.spec import Builder

from securefedyj.files import write_atomically
from securefedyj.joining.site import FILE

ALLOWED = (
    "securefedyj.integrations.flare.controller.SecureFedYJController",
    "securefedyj.integrations.flare.executor.SecureFedYJExecutor",
)
"""Classes that FLARE may instantiate: entries of its `class_allow_list`.

Not the whole package: FLARE calls any name of an allowed module that a job gives, functions too.
"""


_RIGHTS = ("submit_job", "clone_job", "manage_job", "download_job", "view", "operate")
_SHELL = ("cat", "grep", "head", "ls", "pwd", "tail")  # a policy may name them one by one
_CLOSED = ("byoc", "server-predeployed-flwr", "shell_commands", *_SHELL)


class SecureFedYJBuilder(Builder):
    """Allows our components at the server and at all clients; comes after StaticFileBuilder.

    Parameters
    ----------
    sites
        A folder with NAME/securefedyj.toml of all clients, on one machine (POC): their kits get
        links to those. Without it, each site writes its own file into its kit.
    closed
        At the clients, jobs may not bring code (FLARE's right `byoc`), and FLARE's console may not
        read files (`shell_commands`).
    """

    def __init__(self, sites: str = "", closed: bool = False) -> None:
        self._sites, self._closed = Path(sites).absolute() if sites else None, closed

    def build(self, project: Project, ctx: ProvisionContext) -> None:
        for participant in (project.get_server(), *project.get_clients()):
            allow(Path(ctx.get_local_dir(participant)))
        for client in project.get_clients():
            local = Path(ctx.get_local_dir(client))
            if self._closed:
                close(local)
            if self._sites is not None:
                (local / FILE).symlink_to(self._sites / client.name / FILE)


def allow(local: Path) -> None:
    """Allow our components in a folder `local`, in addition to those allowed already."""
    path = _in_force(local / "resources.json")
    resources: dict[str, Any] = {"format_version": 2}
    if path.exists():
        resources = json.loads(path.read_text(encoding="utf-8"))
    allowed = resources.get("class_allow_list", DEFAULT_CLASS_ALLOW_LIST)
    more = [one for one in ALLOWED if one not in allowed]
    _write(path, resources | {"class_allow_list": [*allowed, *more]})


def close(local: Path) -> None:
    """Take the rights to bring code and to read files from every role."""
    path = _in_force(local / "authorization.json")
    policy: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for role, rights in policy["permissions"].items():
        each = rights if isinstance(rights, dict) else dict.fromkeys(_RIGHTS, rights)
        policy["permissions"][role] = each | dict.fromkeys(_CLOSED, "none")
    _write(path, policy)


def _in_force(path: Path) -> Path:
    """The file itself, or FLARE's default in its place."""
    return path if path.exists() else path.with_name(path.name + ".default")


def _write(path: Path, content: dict[str, Any]) -> None:
    write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())
