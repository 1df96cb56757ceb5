"""The job, for FLARE's environments."""

from __future__ import annotations

from pathlib import Path

from nvflare.job_config.api import FedJob
from nvflare.recipe.run import Run
from nvflare.recipe.sim_env import SimEnv
from nvflare.recipe.spec import ExecEnv, Recipe

from securefedyj.integrations.flare.controller import SecureFedYJController
from securefedyj.integrations.flare.executor import TASK, SecureFedYJExecutor
from securefedyj.integrations.flare.provision import allow
from securefedyj.integrations.job import LOG, RESULT, NoResult, named
from securefedyj.network.consortium import Consortium
from securefedyj.printable import shown


class SecureFedYJRecipe(Recipe):
    """A run among the parties of an agreed file, for `execute(SimEnv | PocEnv | ProdEnv)`.

    The job has no code and no data, and of the agreed file only the digest and the parties' names:
    all else is at the sites (`site`), which must have securefedyj installed.

    Parameters
    ----------
    name
        Of the job.
    consortium
        The agreed file; its parties have the names of FLARE's clients.
    timeout
        Seconds for the whole job; 0 for as long as the sites wait for each other.

    Examples
    --------
    >>> recipe = SecureFedYJRecipe(name="fit", consortium="consortium.toml")  # doctest: +SKIP
    >>> run = recipe.execute(ProdEnv(startup_kit_location="admin@example.org"))  # doctest: +SKIP
    >>> result_of(run)  # doctest: +SKIP
    """

    def __init__(self, name: str, consortium: Path | str | Consortium, timeout: int = 0) -> None:
        agreed = consortium if isinstance(consortium, Consortium) else Consortium.read(consortium)
        parties = [party.name for party in agreed.parties]
        # FLARE does not restart a site's process that has died; another job continues the run.
        job = FedJob(name=name, min_clients=len(parties), mandatory_clients=parties, fail_fast=True)
        job.set_app_packages(["securefedyj"])
        job.to_server(SecureFedYJController(named(agreed), parties, timeout))
        for party in parties:
            job.to(SecureFedYJExecutor(), party, tasks=[TASK])
        super().__init__(job)

    def process_env(self, env: ExecEnv) -> None:
        """In the simulator there is no administrator who would allow our components."""
        if isinstance(env, SimEnv):
            local = Path(env.workspace_root) / self._job.name / "local"
            local.mkdir(parents=True, exist_ok=True)
            allow(local)


def result_of(run: Run) -> Path:
    """Wait for the job to end; return the server's parameters.json, or raise NoResult.

    FLARE itself returns a folder for a job that has failed, too. This stops what the run's
    environment has started, and leaves its files.
    """
    folder = run.get_result(clean_up=False)
    found = [] if folder is None else list(Path(folder).rglob(RESULT))
    if len(found) == 1:
        return found[0]
    logs = [] if folder is None else sorted(Path(folder).rglob("log.txt"))
    raise NoResult(
        "SFY-FLARE-004",
        f"The job has no {RESULT}; FLARE says: {shown(run.get_status())}. The reason is in "
        f"{logs[0] if logs else 'the log of the job at the server of FLARE'}, and what is about "
        f"one site alone in its {LOG} (docs/flare.md). Submit the job again to resume.",
    )
