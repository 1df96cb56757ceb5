"""Run a job in FLARE's simulator: FOLDER, with sites' files in FOLDER/workspace/NAME/local."""

import sys
from pathlib import Path

from nvflare.recipe.sim_env import SimEnv

from securefedyj.integrations.flare.recipe import SecureFedYJRecipe

if __name__ == "__main__":
    folder, name, consortium, *clients = sys.argv[1:]
    recipe = SecureFedYJRecipe(name=name, consortium=consortium)
    recipe.execute(SimEnv(clients=clients, workspace_root=str(Path(folder) / "workspace")))
