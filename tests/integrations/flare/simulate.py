"""Run a job in FLARE's simulator: FOLDER, with sites' files in FOLDER/workspace/fit/local."""

import sys

from nvflare.recipe import SimEnv

from securefedyj.integrations.flare.recipe import SecureFedYJRecipe

if __name__ == "__main__":
    folder, consortium, *clients = sys.argv[1:]
    recipe = SecureFedYJRecipe(name="fit", consortium=consortium)
    recipe.execute(SimEnv(clients=clients, workspace_root=f"{folder}/workspace"))
