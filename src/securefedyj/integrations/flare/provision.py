"""What FLARE's startup kits need for our jobs, as a builder of a project.yml; docs/flare.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nvflare.app_common.default_component_policy import DEFAULT_CLASS_ALLOW_LIST
from nvflare.lighter.constants import ProvFileName
from nvflare.lighter.ctx import ProvisionContext
from nvflare.lighter.entity import Project
from nvflare.lighter.spec import Builder

from securefedyj.files import write_atomically
from securefedyj.integrations.flare.site import FILE

ALLOWED = "securefedyj.integrations.flare."
"""What FLARE may build of what is installed: an entry of its `class_allow_list`."""


class SecureFedYJBuilder(Builder):
    """Allows our components at the server and at all clients; comes after StaticFileBuilder.

    Parameters
    ----------
    sites
        A folder with NAME/securefedyj.toml of all clients, on one machine (POC): their kits get
        links to those. Without it, each site writes its own file into its kit.
    """

    def __init__(self, sites: str = "") -> None:
        self._sites = Path(sites).absolute() if sites else None

    def build(self, project: Project, ctx: ProvisionContext) -> None:
        for participant in (project.get_server(), *project.get_clients()):
            allow(Path(ctx.get_local_dir(participant)))
        if self._sites is not None:
            for client in project.get_clients():
                (Path(ctx.get_local_dir(client)) / FILE).symlink_to(
                    self._sites / client.name / FILE
                )


def allow(local: Path) -> None:
    """Allow our components in a folder `local`, beside what is allowed already."""
    own, default = local / "resources.json", local / ProvFileName.RESOURCES_JSON_DEFAULT
    path = own if own.exists() else default
    resources: dict[str, Any] = {"format_version": 2}
    if path.exists():
        resources = json.loads(path.read_text(encoding="utf-8"))
    allowed = resources.setdefault("class_allow_list", list(DEFAULT_CLASS_ALLOW_LIST))
    if ALLOWED not in allowed:
        allowed.append(ALLOWED)
        write_atomically(path, (json.dumps(resources, indent=2) + "\n").encode())
